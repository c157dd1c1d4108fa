package gateway

import "bytes"

// promptReader puts the meaning of JSON into a linker: white space does not count, nor how a string is escaped, nor members that
// are null, nor cache_control, which Claude Code moves from message to message; a text is the same as a list that holds
// one text part, into which Claude Code turns it meanwhile. The order of an object's members does count, and how a
// number is spelled: clients send a history again as they sent it before, and sorting would cost a digest a member.
type promptReader struct {
	*linker
	b      []byte // the body
	f      *facts
	system bool // what is read is system text
}

// Marks stand before what they name.
const (
	markText  = 0xf8 + iota // a string; its length follows it
	markKey                 // of a member
	markPlain               // a number, true or false
	markOpen
	markClose
	markList
	markEnd // of a list, and of each part of a content
)

// name puts a string that is not in the body and counts as no text.
func (r *promptReader) name(s string) {
	r.mark(markText)
	r.write([]byte(s))
	r.size(len(s))
}

// The methods below take the offset of what they read and return the one behind it. The body is known to be JSON, nested
// no deeper than maxDepth.

func (r *promptReader) space(i int) int {
	for r.b[i] <= ' ' {
		i++
	}
	return i
}

// first and next go through a list or an object: the offset of its first element or key, or of the next one after what ended
// at i; false, and the offset behind it, when there is none.
func (r *promptReader) first(i int) (int, bool) {
	i = r.space(i + 1)
	if c := r.b[i]; c == ']' || c == '}' {
		return i + 1, false
	}
	return i, true
}

func (r *promptReader) next(i int) (int, bool) {
	if i = r.space(i); r.b[i] != ',' {
		return i + 1, false
	}
	return r.space(i + 1), true
}

// skip finds the end of a value.
func (r *promptReader) skip(i int) int {
	s := scanner{b: r.b}
	return s.value(i, 1) // it visits the members of depth 1, which is none of these
}

func (r *promptReader) value(i int) int {
	switch r.b[i] {
	case '"':
		return r.str(i)
	case '{':
		r.mark(markOpen)
		i = r.object(i, asIs)
		r.mark(markClose)
	case '[':
		r.mark(markList)
		el, more := r.first(i)
		for more {
			el, more = r.next(r.value(el))
		}
		i = el
		r.mark(markEnd)
	default:
		i = r.plain(i)
	}
	return i
}

// plain reads a number, true, false or null. A number among a prompt's tokens is one, and counts as four letters.
func (r *promptReader) plain(i int) int {
	from := i
	for i < len(r.b) && r.b[i] > ' ' && r.b[i] != ',' && r.b[i] != ']' && r.b[i] != '}' {
		i++
	}
	r.mark(markPlain)
	r.put(r.b[from:i])
	if r.block > 0 {
		r.p.whole.text += 4 - (i - from)
	}
	return i
}

// kinds of objects, by what is left out of them.
type objectKind uint8

const (
	asIs objectKind = iota
	aMessage
	aPart // of a message's content
)

func (r *promptReader) message(i int) int {
	if r.b[i] != '{' {
		return r.value(i)
	}
	return r.object(i, aMessage)
}

// object puts the members of one; where it begins and ends is for the caller to say.
func (r *promptReader) object(i int, as objectKind) int {
	i, more := r.first(i)
	for more {
		k := span{i, plainEnd(r.b, i+1)}
		for r.b[k.to] != '"' { // an escape in a key: no honest client makes us read it twice
			k.to = r.skip(i) - 1
		}
		k.to++
		v := r.space(r.space(k.to) + 1)
		i, more = r.next(r.member(k, v, as))
	}
	return i
}

func (r *promptReader) member(k span, v int, as objectKind) int {
	name := r.b[k.from+1 : k.to-1]
	switch {
	case r.b[v] == 'n', string(name) == "cache_control", as != asIs && string(name) == "type" && r.implied(v):
		return r.skip(v)
	case as == aPart && string(name) == "text" && r.b[v] == '"':
		return r.str(v)
	}
	r.mark(markKey)
	r.str(k.from)
	switch {
	case as != asIs && string(name) == "content":
		return r.content(v)
	case string(name) == "data" && r.block == 0 && isBase64(r.b[v:]):
		return r.data(v)
	}
	return r.value(v)
}

// implied tells whether a type is the one that is meant where none is given.
func (r *promptReader) implied(i int) bool {
	for _, t := range []string{`"text"`, `"input_text"`, `"output_text"`, `"message"`} {
		if bytes.HasPrefix(r.b[i:], []byte(t)) {
			return true
		}
	}
	return false
}

// content puts the content of a message: a text, or a list of parts.
func (r *promptReader) content(i int) int {
	if r.b[i] != '[' {
		before := r.written
		i = r.value(i)
		r.endPart(before)
		return i
	}
	i, more := r.first(i)
	for more {
		before := r.written
		if r.b[i] == '{' {
			i = r.object(i, aPart)
		} else {
			i = r.value(i)
		}
		r.endPart(before)
		i, more = r.next(i)
	}
	return i
}

// endPart ends a part of which something was put: one that is left out leaves no trace.
func (r *promptReader) endPart(before int) {
	if r.written > before {
		r.mark(markEnd)
	}
}
