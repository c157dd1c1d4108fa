package web

import (
	"context"
	"net/http"

	"viiwork/appliance/status"
)

// Format is how a value is shown.
func Format(v any, as string) string { return format(v, as) }

// Hub is what tells browsers of changes.
type Hub struct{ hub }

// Listener is one of them.
type Listener struct{ w *watcher }

// MakeHub makes one that is told by hand.
func MakeHub() *Hub {
	return &Hub{hub{board: func(context.Context) status.Board { return status.Board{} }, wake: make(chan struct{}, 1), watchers: map[*watcher]struct{}{}}}
}

// Join listens to those kinds, or all.
func (h *Hub) Join(only ...string) *Listener {
	w := &watcher{only: only, inbox: make(chan []message, maxBehind)}
	h.join(w)
	return &Listener{w}
}

// Serve is GET /api/events.
func (h *Hub) Serve(w http.ResponseWriter, r *http.Request) { h.serve(w, r) }

// Listening counts those who listen.
func (h *Hub) Listening() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.watchers)
}

// MaxOfOne is how many of one address may listen.
const MaxOfOne = maxOfOne

// Tell goes from one board to the next.
func (h *Hub) Tell(before, now status.Board) {
	next := tablesOf(now)
	h.tell(tablesOf(before).changes(next), next)
}

// Heard takes one tick's events; false = it was let go, or nothing is there.
func (l *Listener) Heard() (text string, ok bool) {
	select {
	case all, open := <-l.w.inbox:
		return string(joined(all)), open
	default:
		return "", true
	}
}

// MaxBehind is how many ticks a listener may leave unread.
const MaxBehind = maxBehind

// WhyCold says why a request began as cold as class.
func WhyCold(r status.Request, class string) string {
	return whyCold(explained{Request: r, Class: class, Priced: planOf(r.Plan)})
}

// Worth is what the page of caches says they are worth.
func Worth(b status.Board) (verdict, why string) {
	v := view{rows: rowsOf(b)}
	return v.Worth().Verdict(), v.Worth().Sentence()
}

// Dearer says why the cheapest engine was not chosen.
func Dearer(r status.Request) string { return explained{Request: r, Priced: planOf(r.Plan)}.Dearer() }
