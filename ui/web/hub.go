package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"viiwork/appliance/status"
)

const (
	// tellEvery is how often changes are told, and soonest the shortest time before a newcomer's snapshot.
	tellEvery = time.Second
	soonest   = 100 * time.Millisecond
	// maxWatchers bounds the browsers that listen, maxOfOne those of one address, so that none keeps the others out, and maxBehind
	// what each may have unread: ticks.
	maxWatchers = 512
	maxOfOne    = 128
	maxBehind   = 16
	// writeWithin is how long a browser may take to take what is told, and quietFor how long it hears nothing at most.
	writeWithin = 10 * time.Second
	quietFor    = 15 * time.Second
)

// message is one event of a kind, as it goes over the wire.
type message struct {
	kind string
	data []byte
}

// watcher is one browser that listens.
type watcher struct {
	from  string   // address, without a port; "" = by the node's own socket
	only  []string // kinds; empty = all
	inbox chan []message
	fresh bool // it has had its snapshot
}

// hub makes what is told, once for all.
type hub struct {
	board func(context.Context) status.Board
	wake  chan struct{} // holds one: somebody new listens

	mu       sync.Mutex // guards what follows
	watchers map[*watcher]struct{}
	over     bool
}

func newHub(board func(context.Context) status.Board) *hub {
	return &hub{board: board, wake: make(chan struct{}, 1), watchers: map[*watcher]struct{}{}}
}

func (h *hub) watched() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.watchers) > 0
}

// run tells until ctx ends. It makes nothing while nobody listens.
func (h *hub) run(ctx context.Context) error {
	defer h.end()
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	var told tables
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-h.wake:
			select {
			case <-time.After(soonest):
			case <-ctx.Done():
				return nil
			}
		}
		if !h.watched() {
			told = nil
			continue
		}
		now := tablesOf(h.board(ctx))
		h.tell(told.changes(now), now)
		told = now
	}
}

// tell gives each watcher what it lacks. It waits for none.
func (h *hub) tell(changes []message, now tables) {
	var whole []message
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		what := changes
		if !w.fresh {
			if whole == nil {
				whole = now.snapshot()
			}
			what, w.fresh = whole, true
		}
		if what = w.of(what); len(what) == 0 {
			continue
		}
		select {
		case w.inbox <- what:
		default: // it does not read: it begins anew when it comes back
			delete(h.watchers, w)
			close(w.inbox)
		}
	}
}

func (w *watcher) of(all []message) []message {
	if len(w.only) == 0 {
		return all
	}
	var some []message
	for _, m := range all {
		if slices.Contains(w.only, m.kind) {
			some = append(some, m)
		}
	}
	return some
}

// end lets everybody go.
func (h *hub) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	for w := range h.watchers {
		close(w.inbox)
	}
	clear(h.watchers)
}

func (h *hub) join(w *watcher) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || len(h.watchers) >= maxWatchers || h.listening(w.from) >= maxOfOne {
		return false
	}
	h.watchers[w] = struct{}{}
	select {
	case h.wake <- struct{}{}:
	default:
	}
	return true
}

// listening counts those of one address. It wants the lock held.
func (h *hub) listening(from string) (n int) {
	for w := range h.watchers {
		if w.from == from {
			n++
		}
	}
	return n
}

func (h *hub) leave(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers, w)
}

// serve is GET /api/events?kinds=A,B.
func (h *hub) serve(w http.ResponseWriter, r *http.Request) {
	me := &watcher{inbox: make(chan []message, maxBehind)}
	if addr, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		me.from = addr.Addr().Unmap().WithZone("").String()
	}
	if only := r.URL.Query().Get("kinds"); only != "" {
		me.only = strings.SplitN(only, ",", len(kinds)+1)
	}
	if !h.join(me) {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many listen, here or from your address, or the node is on its way down: try again shortly", http.StatusServiceUnavailable)
		return
	}
	defer h.leave(me)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	send := func(text []byte) bool {
		_ = out.SetWriteDeadline(time.Now().Add(writeWithin)) // an in-memory server has none to set
		if _, err := w.Write(text); err != nil {
			return false
		}
		return out.Flush() == nil
	}
	if !send([]byte("retry: 2000\n\n")) {
		return
	}
	quiet := time.NewTimer(quietFor)
	defer quiet.Stop()
	for {
		var text []byte
		select {
		case <-r.Context().Done():
			return
		case <-quiet.C:
			text = []byte(": quiet\n\n")
		case told, ok := <-me.inbox:
			if !ok {
				return
			}
			text = joined(told)
		}
		if !send(text) {
			return
		}
		quiet.Reset(quietFor)
	}
}

func joined(all []message) []byte {
	parts := make([][]byte, len(all))
	for i, m := range all {
		parts[i] = m.data
	}
	return bytes.Join(parts, nil)
}

// event is a message as the wire has it.
func event(name, kind string, doc any) message {
	data, err := json.Marshal(doc)
	if err != nil { // cannot be: it was read from JSON
		data = []byte("{}")
	}
	return message{kind, slices.Concat([]byte("event: "+name+"\ndata: "), data, []byte("\n\n"))}
}
