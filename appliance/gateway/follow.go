package gateway

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"viiwork/engine"
)

// verdict says what becomes of an event.
type verdict uint8

const (
	pass   verdict = iota
	drop           // not for the client
	finale         // the answer's last event: pass it, the rest is not for the client
)

// follower reads along with an engine's stream: it knows what is the client's, when the answer is complete, and what it
// cost. Most events are looked at by a few substring searches and never decoded.
type follower struct {
	rt       endpoint
	progress bool // the client wants prompt_progress itself
	choices  int  // answers that must finish before an end without [DONE] is a clean one

	tally    tally
	content  bool // the first event with content has been seen
	prefill  bool // a progress report has been seen
	finished int  // choices that gave their finish reason
	ended    bool
	inWork   bool // responses: the first in_progress event has passed
}

var (
	// Inside a string a quote has a backslash before it, so none of these is ever found in a model's text as a key.
	markProgress = []byte(`"prompt_progress"`)
	markUsage    = []byte(`"usage"`)
	markTimings  = []byte(`"timings"`)
	markError    = []byte(`"error"`)
	markFinish   = []byte(`"finish_reason"`)
	done         = []byte("[DONE]")
)

// see judges one event. An error is the engine's own, in our words.
func (f *follower) see(name string, data []byte) (verdict, error) {
	if len(data) == 0 || f.ended || string(data) == "null" {
		return drop, nil
	}
	if bytes.Equal(data, done) {
		f.ended = true
		return finale, nil
	}
	if name == "error" || bytes.Contains(data, markError) {
		if err := f.failure(name, data); err != nil {
			return drop, err
		}
	}
	if bytes.Contains(data, markProgress) && topLevel(data, "prompt_progress") != (span{}) {
		f.tally.read(data, false)
		f.prefill = true
		if f.progress {
			return pass, nil
		}
		if f.rt.kind == kindResponses && !f.inWork {
			f.inWork = true
			return pass, nil // stream cuts the report out of it
		}
		return drop, nil
	}
	f.content = f.content || !preface(name)
	finish := f.finishes(data)
	if bytes.Contains(data, markUsage) || bytes.Contains(data, markTimings) {
		f.tally.read(data, finish)
	}
	if f.last(name, data) {
		f.ended = true
		return finale, nil
	}
	return pass, nil
}

// preface tells whether an event comes before any content.
func preface(name string) bool {
	switch name {
	case "message_start", "ping", "response.created", "response.in_progress", "response.queued":
		return true
	}
	return false
}

func (f *follower) finishes(data []byte) bool {
	switch f.rt.kind {
	case kindChat, kindCompletions:
		if keyWithText(data, markFinish) {
			f.finished++
			return true
		}
	}
	return false
}

// last tells whether an event completes an answer whose API has no [DONE].
func (f *follower) last(name string, data []byte) bool {
	switch f.rt.kind {
	case kindMessages:
		return name == "message_stop"
	case kindResponses:
		return name == "response.completed" || name == "response.incomplete" || name == "response.failed"
	case kindInfill:
		s := topLevel(data, "stop")
		return string(s.in(data)) == "true"
	}
	return false
}

// keyWithText tells whether a key somewhere in data has a string for its value.
func keyWithText(data, key []byte) bool {
	for {
		i := bytes.Index(data, key)
		if i < 0 {
			return false
		}
		data = bytes.TrimLeft(data[i+len(key):], " ")
		if len(data) > 0 && data[0] == ':' {
			if data = bytes.TrimLeft(data[1:], " "); len(data) > 0 && data[0] == '"' {
				return true
			}
		}
	}
}

// failure reads an event in which the engine reports an error.
func (f *follower) failure(name string, data []byte) error {
	if s := topLevel(data, "error"); name != "error" && (s == (span{}) || string(s.in(data)) == "null") {
		return nil
	}
	in := errorMember(data)
	e := engineRefusal(http.StatusBadGateway, in, f.rt)
	if in.Message == "" {
		e.Message = "the engine ended the answer with an error"
	}
	return e
}

// end judges how the stream itself ended.
func (f *follower) end(err error) error {
	switch {
	case f.ended:
		return nil
	case err == io.EOF && f.finished > 0 && f.finished >= f.choices:
		return nil
	case errors.Is(err, errEventTooLong):
		return unreadable()
	}
	return lost(err)
}

// lost turns the loss of an engine into an answer.
func lost(err error) *Error {
	if errors.Is(err, engine.ErrSilent) {
		return fellSilent()
	}
	return brokeOff()
}

// topLevel finds the last member of that name in a JSON object: its value, or the zero span.
func topLevel(data []byte, name string) span {
	var found span
	bad := eachMember(data, func(k, v span) {
		if k.to-k.from == len(name)+2 && string(data[k.from+1:k.to-1]) == name {
			found = v
		}
	})
	if bad != nil {
		return span{}
	}
	return found
}

// withoutMember copies an event without a member of its data's object.
func withoutMember(ev, data []byte, name string) []byte {
	var cut span
	first, prev := false, 0 // prev is the end of the value before
	_ = eachMember(data, func(k, v span) {
		switch {
		case string(data[k.from+1:k.to-1]) == name && prev > 0:
			cut = span{prev, v.to} // with the comma before it
		case string(data[k.from+1:k.to-1]) == name:
			cut, first = span{k.from, v.to}, true
		case first:
			cut.to, first = k.from, false // it stood first: with the comma behind it
		}
		prev = v.to
	})
	at := bytes.Index(ev, data)
	if at < 0 || cut == (span{}) {
		return ev
	}
	out := make([]byte, 0, len(ev))
	return append(append(out, ev[:at+cut.from]...), ev[at+cut.to:]...)
}
