package sim

import (
	"fmt"
	"slices"

	"viiwork/appliance/route"
)

// node owns engines, and the line before them.
type node struct {
	w       *world
	nr      int
	id      string
	engines []*engine
	line    []*waiter
	score   float64 // s to the first token, per prompt token
	store   store
	told    *report
}

// report is what a node tells the others.
type report struct {
	at       float64
	waiting  int
	score    float64
	backends []figures
}

type figures struct {
	free, waiting, outstanding, decoding, residents, idle int

	freeAt float64
}

func newNode(w *world, nr int, m machine) *node {
	n := &node{w: w, nr: nr, id: fmt.Sprintf("n%d", nr), store: store{room: storeRoom}}
	for i := range m.backends {
		e := &engine{
			node: n, at: i, id: fmt.Sprintf("b%d", i), class: m.class, slots: make([]slot, m.class.slots), ram: ramCache{room: m.class.ram},
			residents: map[*session]*resident{}, held: map[*session]state{},
		}
		n.engines = append(n.engines, e)
	}
	return n
}

// take gives a turn a slot at once: at the backend named, else where most of it is held. It reports whether it did.
func (n *node) take(t *turn, backend string) bool {
	var best *engine
	most := -1
	for _, e := range n.engines {
		if e.free() == 0 {
			continue
		}
		warm := e.warmth(t)
		if e.id == backend {
			warm = t.prompt + 1
		}
		if warm > most {
			best, most = e, warm
		}
	}
	if best == nil {
		return false
	}
	best.start(t)
	return true
}

// warmth is how many tokens of the prompt the engine really has.
func (e *engine) warmth(t *turn) int {
	prompt := state{t.session, t.session.version, t.prompt}
	most := 0
	for i := range e.slots {
		if e.slots[i].run == nil {
			most = max(most, e.node.w.work.prefix(e.slots[i].state, prompt))
		}
	}
	for _, s := range e.ram.states {
		most = max(most, e.node.w.work.prefix(s, prompt))
	}
	return most
}

// freed gives the slot to the first in the line who accepts it; nobody there: to who waits at the entry.
func (n *node) freed(e *engine) {
	n.changed()
	for i, p := range n.line {
		if p.backend == "" || p.backend == e.id {
			n.line = slices.Delete(n.line, i, i+1)
			p.granted(e)
			return
		}
	}
	n.w.entries[n.nr].next()
}

func (n *node) join(p *waiter) {
	n.line = append(n.line, p)
	n.changed()
}

func (n *node) leave(p *waiter) {
	if i := slices.Index(n.line, p); i >= 0 {
		n.line = slices.Delete(n.line, i, i+1)
		n.changed()
	}
}

// before is how many in the line want what p wants too.
func (n *node) before(p *waiter) int {
	ahead := 0
	for _, o := range n.line {
		if o == p {
			break
		}
		if o.backend == "" || p.backend == "" || o.backend == p.backend {
			ahead++
		}
	}
	return ahead
}

// rate takes a measured time into the score.
func (n *node) rate(perToken float64) {
	if n.score == 0 {
		n.score = perToken
	}
	n.score += 0.1 * (perToken - n.score)
}

func (n *node) changed() { n.told = nil }

const (
	active  = 300.0 // s a session without a request counts as living somewhere
	settled = 0.25  // s figures that only time changes are told for
)

// report is the node's figures as they are.
func (n *node) report() *report {
	if n.told != nil && n.w.now-n.told.at < settled {
		return n.told
	}
	r := &report{at: n.w.now, waiting: len(n.line), score: n.score, backends: make([]figures, len(n.engines))}
	for i, e := range n.engines {
		e.work()
		f := &r.backends[i]
		f.free = e.free()
		running, outstanding, decoding := e.running()
		f.outstanding, f.decoding = outstanding, decoding
		if f.free == 0 {
			f.freeAt = n.w.now + route.FreeIn(e.figures(), running, 0).Seconds()
		}
		for _, res := range e.residents {
			if res.running > 0 {
				f.residents++
			} else if n.w.now-res.last < active {
				f.residents++
				f.idle++
			}
		}
	}
	for _, p := range n.line {
		if p.backend != "" {
			r.backends[n.w.engineAt(n, p.backend).at].waiting++
		}
	}
	n.told = r
	return r
}

// figures are those of the class.
func (e *engine) figures() route.Backend {
	c := e.class
	return route.Backend{ID: e.id, Ready: true, Slots: c.slots, Prefill: c.prefill, Decode: c.decode, Slowdown: c.slowdown}
}
