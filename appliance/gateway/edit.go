package gateway

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"sync"
)

// payload is a body on its way to an engine: the client's own bytes with a few values replaced or added. Each
// backend that is tried reads one of its own.
type payload struct {
	parts [][]byte
	size  int64

	mu     sync.Mutex
	closed bool // the client's bytes are no longer ours to read
}

// replacement is the text that stands in for the value at a span.
type replacement struct {
	at   span
	text string
}

// newPayload cuts body at the replacements (in order, not overlapping) and puts insert at offset open.
func newPayload(body []byte, open int, insert string, repl []replacement) *payload {
	p := &payload{parts: make([][]byte, 0, 3+2*len(repl))}
	p.add(body[:open])
	p.add([]byte(insert))
	at := open
	for _, r := range repl {
		p.add(body[at:r.at.from])
		p.add([]byte(r.text))
		at = r.at.to
	}
	p.add(body[at:])
	return p
}

func (p *payload) add(b []byte) {
	if len(b) > 0 {
		p.parts = append(p.parts, b)
		p.size += int64(len(b))
	}
}

// close ends all reading. net/http may read a body a little longer than the exchange lasts; after close the client's
// bytes can be used for something else.
func (p *payload) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
}

// reader starts from the beginning. It is called once: without a GetBody net/http cannot send a request a second time.
func (p *payload) reader() io.ReadCloser { return &payloadReader{p: p, parts: p.parts} }

var errPayloadClosed = errors.New("the request is over")

type payloadReader struct {
	p     *payload
	parts [][]byte
	off   int
}

func (r *payloadReader) Read(b []byte) (int, error) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if r.p.closed && len(r.parts) > 0 {
		return 0, errPayloadClosed
	}
	n := 0
	for n < len(b) && len(r.parts) > 0 {
		k := copy(b[n:], r.parts[0][r.off:])
		n, r.off = n+k, r.off+k
		if r.off == len(r.parts[0]) {
			r.parts, r.off = r.parts[1:], 0
		}
	}
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (r *payloadReader) Close() error { return nil }

// sent is what decides about the body beside the client.
type sent struct {
	stream bool // the client wants events
	slot   int  // the engine's to work in, -1 = its own choice
}

// edited turns a client's body into what the engine gets on a streaming route: always a stream with progress reports,
// because llama-server notices a lost client only in a stream and in a prefill only between its reports; never the
// client's choice of a slot, which is the engine's to make but where its cache was just put; the usage chunk when the answer is put together here;
// the model in the place of its alias; on the routes of Anthropic's API without Claude Code's billing lines.
func edited(body []byte, f *facts, rt endpoint, want sent) *payload {
	var repl []replacement
	if anthropic(rt.path) {
		repl = f.unbilled(body)
	}
	if !rt.streams() {
		return newPayload(body, 0, "", inOrder(append(repl, f.renamed()...)))
	}
	usage := !want.stream && (rt.kind == kindChat || rt.kind == kindCompletions)
	var have [keyMetadata + 1]bool
	for _, m := range f.seen[:f.count] {
		have[m.key] = true
		switch m.key {
		case keyModel:
			if f.rename != "" {
				repl = append(repl, replacement{m.val, f.rename})
			}
		case keyStream, keyReturnProgress:
			repl = append(repl, replacement{m.val, "true"})
		case keyIDSlot:
			repl = append(repl, replacement{m.val, itoa(want.slot)})
		case keyStreamOptions:
			if usage {
				repl = append(repl, replacement{m.val, includeUsage})
			}
		}
	}
	insert := ""
	if !have[keyStream] {
		insert += `"stream":true,`
	}
	if !have[keyReturnProgress] {
		insert += `"return_progress":true,`
	}
	if want.slot >= 0 && !have[keyIDSlot] {
		insert += `"id_slot":` + itoa(want.slot) + `,`
	}
	if usage && !have[keyStreamOptions] {
		insert += `"stream_options":` + includeUsage + `,`
	}
	if f.empty && insert != "" {
		insert = insert[:len(insert)-1]
	}
	return newPayload(body, f.open, insert, inOrder(repl))
}

// inOrder sorts replacements by where they stand.
func inOrder(repl []replacement) []replacement {
	slices.SortFunc(repl, func(a, b replacement) int { return cmp.Compare(a.at.from, b.at.from) })
	return repl
}

// renamed are the replacements that name the model an alias stands for.
func (f *facts) renamed() (repl []replacement) {
	for _, m := range f.seen[:f.count] {
		if m.key == keyModel && f.rename != "" {
			repl = append(repl, replacement{m.val, f.rename})
		}
	}
	return repl
}

const includeUsage = `{"include_usage":true}`
