package mesh

import (
	"container/list"
	"time"
)

// MaxHomes is how many conversations are remembered with the spot where they are at home; the one longest unused is
// forgotten first.
const MaxHomes = 10_000

// homes remembers where each conversation ran last.
type homes struct {
	order *list.List // of *home, most recently used first
	at    map[homeKey]*list.Element
}

type homeKey struct{ model, session string }

type home struct {
	key    homeKey
	spot   Spot
	source string
	tokens int       // as far as its owner tells; 0 = unknown
	active time.Time // when it last ran, as far as is known
	ended  bool      // its last request has: the next one comes after a pause
	blind  bool      // its owner does not say of which prompt
	teller string    // the member that says so; "" = this node has seen it
}

func newHomes() homes { return homes{order: list.New(), at: map[homeKey]*list.Element{}} }

// find gives the conversation's home, nil if it is not known.
func (h *homes) find(model, session string) *home {
	el := h.at[homeKey{model, session}]
	if session == "" || el == nil {
		return nil
	}
	h.order.MoveToFront(el)
	return el.Value.(*home)
}

// set notes a home unless a later one is known. What its own node says of how much it holds is never too late: its words
// come in order, while when a request ended is told by another clock than when it was seen from here to run.
func (h *homes) set(n home) {
	if n.key.session == "" {
		return
	}
	if el := h.at[n.key]; el != nil {
		if was := el.Value.(*home); n.active.Before(was.active) {
			if !n.ended || n.spot != was.spot {
				return
			}
			n.active = was.active
		}
		el.Value = &n
		h.order.MoveToFront(el)
		return
	}
	h.at[n.key] = h.order.PushFront(&n)
	if h.order.Len() > MaxHomes {
		h.forget(h.order.Back())
	}
}

func (h *homes) forget(el *list.Element) {
	delete(h.at, el.Value.(*home).key)
	h.order.Remove(el)
}
