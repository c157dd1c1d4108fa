package sim

import (
	"slices"
	"time"

	"viiwork/appliance/route"
)

// entry is a node as the one by which requests come in: what it knows of the others, and who waits for a slot anywhere.
type entry struct {
	w    *world
	self *node
	snap route.Snapshot
	view []view
	fifo []*waiter // first come, first served: in no node's line
	busy bool      // next runs
}

// view is another node as last told, and what this entry has done to it since.
type view struct {
	*report
	taken, outstanding, waiting []int // of each backend
	refused                     bool
}

// waiter is a turn that has found nothing free.
type waiter struct {
	e       *entry
	t       *turn
	since   float64
	at      *node  // in whose line; nil = in the entry's own
	backend string // the only one that will do, "" = any
	over    bool
}

const (
	pollEvery = 1.0
	roundTrip = 0.001
	repriced  = 0.5
	retried   = 0.25
	maxHops   = 6
)

func newEntry(w *world, n *node) *entry {
	e := &entry{w: w, self: n, view: make([]view, len(w.nodes))}
	for i, o := range w.nodes {
		rn := route.Node{ID: o.id, Name: o.id, Local: o == n, RTT: time.Millisecond}
		for _, en := range o.engines {
			rn.Backends = append(rn.Backends, en.figures())
		}
		e.snap.Nodes = append(e.snap.Nodes, rn)
		b := len(o.engines)
		e.view[i] = view{taken: make([]int, b), outstanding: make([]int, b), waiting: make([]int, b)}
		e.poll(o)
	}
	if w.cfg.KV != "off" {
		e.snap.Cache = route.Cache{
			TokenBytes: tokenBytes, StateBytes: stateBytes, ImportRate: importRate, ImportStart: importTime, PullStart: perReplica,
			SaveRate: saveRate, Fresh: w.cfg.KV == "replicate",
		}
	}
	e.snap.Weights = w.cfg.Weights
	return e
}

// poll brings a view up to date.
func (e *entry) poll(o *node) {
	v := &e.view[o.nr]
	v.report, v.refused = o.report(), false
	clear(v.taken)
	clear(v.outstanding)
	clear(v.waiting)
}

// survey is how the fleet stands in the eyes of a turn.
func (e *entry) survey(t *turn) *route.Snapshot {
	for i, o := range e.w.nodes {
		if o == e.self || e.w.cfg.Policy == Oracle {
			e.poll(o)
		}
		v, n := &e.view[i], &e.snap.Nodes[i]
		n.Waiting, n.Score, n.Full = v.report.waiting, v.score, v.refused
		for j := range n.Backends {
			b, f := &n.Backends[j], &v.backends[j]
			b.Free = f.free - v.taken[j]
			b.Waiting, b.Outstanding, b.Decoding = f.waiting+v.waiting[j], f.outstanding+v.outstanding[j], f.decoding
			n.Waiting += v.waiting[j]
			b.Residents, b.Idle = f.residents, f.idle
			b.FreeIn = time.Duration(max(0, f.freeAt-e.w.now) * float64(time.Second))
			b.Held = e.w.believed(t, o.engines[j])
		}
		if e.w.cfg.KV != "off" {
			n.Replica, n.Unsaved = o.store.get(t.session), o.unsaved(t.session)
			n.Link, n.Sending = linkRate, time.Duration(max(0, o.store.busy-e.w.now)*float64(time.Second))
		}
	}
	return &e.snap
}

// submit looks for a slot for a turn.
func (e *entry) submit(t *turn) {
	if len(e.fifo) > 0 {
		e.queue(t)
		return
	}
	if p, ok := e.try(t, nil); !ok {
		e.wait(t, p)
	}
}

// try plans a turn until a node takes it or there is nothing free. p is the place it waits at, nil = none.
func (e *entry) try(t *turn, p *waiter) (route.Plan, bool) {
	plan := route.Plan{}
	for range maxHops {
		plan = e.w.pick(e, t, p)
		if plan.Wait || plan.None() {
			return plan, false
		}
		o := e.w.node(plan.Node)
		if o.take(t, plan.Backend) {
			e.took(t, o)
			return plan, true
		}
		e.view[o.nr].refused = true
	}
	return route.Plan{Wait: true}, false
}

// took counts a slot as taken until the node tells of it itself.
func (e *entry) took(t *turn, o *node) {
	v, b := &e.view[o.nr], t.session.home
	v.taken[b.at]++
	v.outstanding[b.at] += max(0, t.prompt-t.had)
}

// wait puts a turn into the line that the plan names, or the entry's own.
func (e *entry) wait(t *turn, plan route.Plan) {
	if plan.Node == "" {
		e.queue(t)
		return
	}
	p := &waiter{e: e, t: t, since: e.w.now, at: e.w.node(plan.Node), backend: plan.Backend}
	p.at.join(p)
	if p.backend != "" {
		e.view[p.at.nr].waiting[e.w.engineAt(p.at, p.backend).at]++
	}
	e.w.after(e.w.patience(), p.refuse)
	e.w.after(repriced, p.reprice)
}

func (e *entry) queue(t *turn) {
	p := &waiter{e: e, t: t, since: e.w.now}
	e.fifo = append(e.fifo, p)
	e.w.after(e.w.patience(), p.refuse)
	if len(e.fifo) == 1 {
		e.w.after(retried, e.next)
	}
}

// next tries the first of those that wait here, and the others as long as that finds slots.
func (e *entry) next() {
	if e.busy {
		return
	}
	e.busy = true
	defer func() { e.busy = false }()
	for len(e.fifo) > 0 {
		p := e.fifo[0]
		if _, ok := e.try(p.t, nil); !ok {
			if !p.t.polls {
				p.t.polls = true
				e.w.after(retried, func() { p.t.polls = false; e.next() })
			}
			return
		}
		p.over = true
		e.fifo = e.fifo[1:]
	}
}

// reprice looks whether a free slot elsewhere has become better than the place in the line.
func (p *waiter) reprice() {
	if p.over {
		return
	}
	e := p.e
	p.at.leaveFor(p, func() bool { _, ok := e.try(p.t, p); return ok })
	if !p.over {
		e.w.after(repriced, p.reprice)
	}
}

// leaveFor leaves the line if the turn finds a slot, even one of this node.
func (n *node) leaveFor(p *waiter, found func() bool) {
	if found() {
		p.over = true
		n.leave(p)
	}
}

func (p *waiter) granted(en *engine) {
	p.over = true
	en.start(p.t)
}

// refuse ends a wait that took too long.
func (p *waiter) refuse() {
	if p.over {
		return
	}
	p.over = true
	if p.at != nil {
		p.at.leave(p)
	} else if i := slices.Index(p.e.fifo, p); i >= 0 {
		p.e.fifo = slices.Delete(p.e.fifo, i, i+1)
	}
	p.e.w.refused(p.t)
}
