package gateway

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

const eventStream = "text/event-stream"

// maxEvent bounds one event of an engine. The last event of a response repeats the whole answer, so it is generous.
const maxEvent = 16 << 20

var errEventTooLong = errors.New("an event of the engine is too long")

// events reads a server-sent event stream, one whole event at a time, out of one reused buffer.
type events struct {
	r        io.Reader
	buf      []byte
	from, to int // unread bytes
	scanned  int // bytes from from on known to hold no end of an event
	err      error
}

var eventBuffers = sync.Pool{New: func() any { b := make([]byte, 16<<10); return &b }}

func newEvents(r io.Reader) *events {
	return &events{r: r, buf: *eventBuffers.Get().(*[]byte)}
}

// release gives the buffer back; no event may be used after it.
func (e *events) release() {
	if buf := e.buf; len(buf) <= pooled {
		eventBuffers.Put(&buf)
	}
	e.buf = nil
}

// next returns the next event with the blank line that ends it. It is valid until the following call. At the end of
// the stream it returns io.EOF; a stream cut inside an event is io.ErrUnexpectedEOF.
func (e *events) next() ([]byte, error) {
	for {
		if n := eventEnd(e.buf[e.from:e.to], e.scanned); n > 0 {
			ev := e.buf[e.from : e.from+n]
			e.from, e.scanned = e.from+n, 0
			return ev, nil
		}
		e.scanned = max(0, e.to-e.from-3) // an end may be split over two reads
		if e.err != nil {
			if e.err == io.EOF && len(bytes.TrimSpace(e.buf[e.from:e.to])) > 0 {
				return nil, io.ErrUnexpectedEOF
			}
			return nil, e.err
		}
		if err := e.room(); err != nil {
			return nil, err
		}
		var n int
		n, e.err = e.r.Read(e.buf[e.to:])
		e.to += n
	}
}

// more tells whether another whole event is at hand without reading.
func (e *events) more() bool { return eventEnd(e.buf[e.from:e.to], 0) > 0 }

// room makes space behind the unread bytes.
func (e *events) room() error {
	if e.from == e.to {
		e.from, e.to = 0, 0
	}
	if e.to < len(e.buf) {
		return nil
	}
	if e.from > 0 {
		e.to = copy(e.buf, e.buf[e.from:e.to])
		e.from = 0
		return nil
	}
	if len(e.buf) >= maxEvent {
		return errEventTooLong
	}
	e.buf = append(e.buf, make([]byte, len(e.buf))...)
	return nil
}

// eventEnd returns the length of the first event in b, its blank line included, or 0. Bytes before from are known not
// to end one.
func eventEnd(b []byte, from int) int {
	for {
		i := bytes.IndexByte(b[from:], '\n')
		if i < 0 {
			return 0
		}
		from += i + 1
		if from < len(b) && b[from] == '\n' {
			return from + 1
		}
		if from+1 < len(b) && b[from] == '\r' && b[from+1] == '\n' {
			return from + 2
		}
	}
}

// fields takes an event apart: its type and its data. Data of several lines, which no engine sends, is joined anew.
func fields(ev []byte) (name string, data []byte) {
	joined := false
	for len(ev) > 0 {
		line := ev
		if i := bytes.IndexByte(ev, '\n'); i >= 0 {
			line, ev = ev[:i], ev[i+1:]
		} else {
			ev = nil
		}
		line = bytes.TrimSuffix(line, []byte("\r"))
		switch {
		case bytes.HasPrefix(line, []byte("data:")):
			part := bytes.TrimPrefix(line[5:], []byte(" "))
			if data == nil {
				data = part
				continue
			}
			if !joined {
				data, joined = bytes.Clone(data), true
			}
			data = append(append(data, '\n'), part...)
		case bytes.HasPrefix(line, []byte("event:")):
			name = eventName(bytes.TrimSpace(line[6:]))
		case bytes.HasPrefix(line, []byte("error:")): // how llama-server once reported errors in a stream
			name, data = "error", bytes.TrimSpace(line[6:])
		}
	}
	return name, data
}

// eventName returns the name as a string without allocating for those of every stream.
func eventName(b []byte) string {
	switch string(b) {
	case "content_block_delta":
		return "content_block_delta"
	case "response.output_text.delta":
		return "response.output_text.delta"
	}
	return string(b)
}
