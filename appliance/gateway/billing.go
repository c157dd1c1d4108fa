package gateway

import "bytes"

// billing begins a line that Claude Code puts before its system text and that is another one in each request.
const billing = "x-anthropic-billing-header:"

// unbilled are the replacements that take such lines out of a body's system text: an engine computes a prompt from its
// first token that differs, and these stand before everything else.
func (f *facts) unbilled(body []byte) (repl []replacement) {
	s, ok := f.part(keySystem)
	if !ok {
		return nil
	}
	r := promptReader{b: body, f: f}
	cut := func(text span) {
		if bytes.HasPrefix(body[text.from+1:], []byte(billing)) {
			repl = append(repl, replacement{span{text.from + 1, r.line(text.from + 1)}, ""})
		}
	}
	switch body[s.from] {
	case '"':
		cut(s)
	case '[':
		for i, more := r.first(s.from); more; {
			end := r.skip(i)
			if body[i] == '{' {
				r.eachText(i, end, cut)
			}
			i, more = r.next(end)
		}
	}
	return repl
}

// eachText visits the text of a part of a content.
func (r *promptReader) eachText(from, end int, visit func(span)) {
	part := r.b[from:end]
	_ = eachMember(part, func(k, v span) {
		if string(k.in(part)) == `"text"` && part[v.from] == '"' {
			visit(span{from + v.from, from + v.to})
		}
	})
}
