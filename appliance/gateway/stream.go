package gateway

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	"viiwork/appliance/status"
)

// pump passes an engine's stream to a client that streams, event by event and at once.
func (k *call) pump(resp *http.Response, f *follower) error {
	ev := newEvents(resp.Body)
	defer ev.release()
	for {
		raw, err := ev.next()
		if err != nil {
			return f.end(err)
		}
		name, data := fields(raw)
		out, err := k.follow(f, name, data)
		if err != nil {
			return err
		}
		if out == drop {
			continue
		}
		if f.rt.kind == kindResponses {
			if raw = k.responsesEvent(raw, name, data, f); raw == nil {
				continue
			}
		}
		if err := k.ans.event(raw, out == finale || !ev.more()); err != nil {
			return errClientGone
		}
	}
}

// follow lets the follower judge an event and keeps the row up to date.
func (k *call) follow(f *follower, name string, data []byte) (verdict, error) {
	prefill, content := f.prefill, f.content
	v, err := f.see(name, data)
	if (f.prefill || f.content) && !(prefill || content) && k.caches != nil {
		k.caches.Taken() // it has chosen the slot
	}
	if v == finale {
		k.complete()
	}
	if f.prefill && !prefill {
		k.row.update(f.tally.into)
	}
	if f.content && !content {
		k.firstContent()
	}
	k.watch(f)
	return v, err
}

func (k *call) firstContent() {
	k.course.First = k.g.now()
	ms := float64(k.course.First.Sub(k.start).Microseconds()) / 1000
	if k.flight != nil {
		k.first = time.Since(k.began)
	}
	k.row.update(func(r *status.Request) { r.State, r.TTFTMS = stateGenerating, &ms })
}

// responsesEvent keeps two promises of that API. It begins with response.created once: when a keep-alive has already
// sent one, the engine's own is not passed. And its first response.in_progress is the client's even where it carries
// a report that only we asked for.
func (k *call) responsesEvent(raw []byte, name string, data []byte, f *follower) []byte {
	switch name {
	case "response.created":
		if !k.ans.claimCreated() {
			return nil
		}
	case "response.in_progress":
		if !f.progress && bytes.Contains(data, markProgress) {
			return withoutMember(raw, data, "prompt_progress")
		}
	}
	return raw
}

// gather puts an engine's stream together for a client that does not stream, and answers.
func (k *call) gather(resp *http.Response, f *follower) error {
	asm := newAssembler(f.rt.kind, k.wantTokens())
	ev := newEvents(resp.Body)
	defer ev.release()
	size := 0
	for {
		raw, err := ev.next()
		if err != nil {
			if err = f.end(err); err != nil {
				return err
			}
			break
		}
		name, data := fields(raw)
		out, err := k.follow(f, name, data)
		if err != nil {
			return err
		}
		if size += len(data); size > maxAssembled {
			return unreadable()
		}
		if out == drop || bytes.Equal(data, done) {
			continue
		}
		if err := asm.add(name, data); err != nil {
			return unreadable()
		}
	}
	doc, err := asm.result()
	if err != nil {
		return unreadable()
	}
	return k.json(doc)
}

// maxAssembled bounds the events of an answer that is put together here. Each token comes with some 250 bytes of
// framing and, with log probabilities, a few kilobytes.
const maxAssembled = 256 << 20

func (k *call) json(doc []byte) error {
	k.ans.res.Header().Set("Content-Length", itoa(len(doc)))
	k.ans.begin(http.StatusOK, "application/json")
	if _, err := k.ans.Write(doc); err != nil {
		return errClientGone
	}
	return nil
}

func isEventStream(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), eventStream)
}
