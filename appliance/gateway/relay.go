package gateway

import (
	"bytes"
	"errors"
	"io"
)

// errCut is a stream that ended before its answer was complete.
var errCut = errors.New("the stream was cut")

// relay passes a member's stream to the client.
type relay struct {
	k     *call
	f     *follower
	first func() // to be called at the first answer byte

	begun bool // the first answer byte has come
}

// pass ends with nil only after the answer's own end. Keep-alives are no answer bytes: until the first of these the
// client gets this node's own, and another node may still answer.
func (r *relay) pass(from io.Reader) error {
	k := r.k
	ev := newEvents(from)
	defer ev.release()
	for {
		raw, err := ev.next()
		if err != nil {
			return r.end(err)
		}
		name, data := fields(raw)
		if !r.begun && k.keepsAlive(name, data) {
			continue
		}
		if !r.begun {
			r.begun = true
			r.first()
			if k.rt.kind == kindResponses && name != "response.created" && k.ans.claimCreated() {
				_ = k.ans.event(k.createdEvent(), false) // the member's went out as a keep-alive; the next write fails, too
			}
		}
		out, err := k.follow(r.f, name, data)
		if err != nil {
			return err
		}
		switch {
		case len(data) == 0:
			out = pass // a comment in the midst of the answer
		case out == drop:
			continue
		}
		if r.f.rt.kind == kindResponses {
			if raw = k.responsesEvent(raw, name, data, r.f); raw == nil {
				continue
			}
		}
		if err := k.ans.event(raw, out == finale || !ev.more()); err != nil {
			return errClientGone
		}
	}
}

func (r *relay) end(err error) error {
	switch {
	case r.f.end(err) == nil:
		return nil
	case errors.Is(err, errEventTooLong):
		return unreadable()
	}
	return errCut
}

// keepsAlive tells whether an event of a member says no more than that it is there. The member's own events of the
// Responses API bear the request's id, which the engine never sees.
func (k *call) keepsAlive(name string, data []byte) bool {
	return len(data) == 0 || name == "ping" || k.rt.kind == kindResponses && bytes.Contains(data, []byte(`"resp_`+k.id+`"`))
}
