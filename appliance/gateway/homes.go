package gateway

import (
	"container/list"
	"sync"
)

// maxHomes is how many conversations are remembered; the one longest unused is forgotten first.
const maxHomes = 10_000

// homes remembers where a conversation ran last: its prompt is probably still cached there.
type homes struct {
	mu    sync.Mutex
	order *list.List // of home, most recently used first
	at    map[string]*list.Element
}

type home struct{ key, backend string }

func newHomes() *homes { return &homes{order: list.New(), at: make(map[string]*list.Element)} }

// find returns the backend a conversation with a model ran on, "" when it is not known.
func (h *homes) find(model, session string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	el, ok := h.at[homeKey(model, session)]
	if session == "" || !ok {
		return ""
	}
	h.order.MoveToFront(el)
	return el.Value.(home).backend
}

func (h *homes) set(model, session, backend string) {
	if session == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	k := homeKey(model, session)
	if el, ok := h.at[k]; ok {
		el.Value = home{k, backend}
		h.order.MoveToFront(el)
		return
	}
	h.at[k] = h.order.PushFront(home{k, backend})
	if h.order.Len() > maxHomes {
		oldest := h.order.Back()
		delete(h.at, oldest.Value.(home).key)
		h.order.Remove(oldest)
	}
}

func homeKey(model, session string) string { return session + " " + model }
