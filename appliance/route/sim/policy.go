package sim

import (
	"hash/fnv"
	"math"
	"time"

	"viiwork/appliance/route"
)

// Policy is how turns are placed.
type Policy string

// Classic and Cost are the product's own. Random takes any free slot, Least the backend with the fewest requests, Hash
// the node that a consistent hash with bounded load names. Oracle prices as Cost does in a fleet where every cache is
// everywhere and everything is known at once: no policy can do as well.
const (
	Random  Policy = "random"
	Least   Policy = "least"
	Classic Policy = "classic"
	Hash    Policy = "hash"
	Cost    Policy = "cost"
	Oracle  Policy = "oracle"
)

// Policies are all of them, in the order in which tables list them.
func Policies() []Policy { return []Policy{Random, Least, Classic, Hash, Cost, Oracle} }

// pick asks the policy where a turn shall go.
func (w *world) pick(e *entry, t *turn, p *waiter) route.Plan {
	s := e.survey(t)
	w.picks++ // equals take turns, as they do where requests are numbered
	switch w.cfg.Policy {
	case Random:
		return w.any(s, func(*route.Node, *route.Backend) float64 { return 0 })
	case Least:
		return w.any(s, func(_ *route.Node, b *route.Backend) float64 { return float64(b.Slots - b.Free) })
	case Hash:
		return w.hashed(s, t)
	}
	r := route.Request{Policy: route.Cost, Seed: w.picks, Prompt: t.prompt}
	if w.cfg.Policy == Classic {
		r.Policy = route.Classic
	}
	if h := w.home(t); h != nil {
		r.Home, r.HomeBackend = h.node.id, h.id
	}
	r.Forget, r.Flat = w.cfg.Forget, w.cfg.Flat
	if p != nil {
		r.Stands, r.Place = p.at.id, p.at.before(p)
		r.Left = time.Duration((w.patience() - w.now + p.since) * float64(time.Second))
	}
	return route.Pick(*s, r)
}

// any plans for the free backend with the least load, equals taking turns by chance.
func (w *world) any(s *route.Snapshot, load func(*route.Node, *route.Backend) float64) route.Plan {
	best, least, number := route.Plan{Wait: true, Reason: route.Cold}, math.Inf(1), 0
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Free() == 0 {
			continue
		}
		for j := range n.Backends {
			b := &n.Backends[j]
			if b.Free <= 0 {
				continue
			}
			l := load(n, b)
			if l < least {
				least, number = l, 0
			}
			if l > least {
				continue
			}
			if number++; w.rng.IntN(number) == 0 {
				best = route.Plan{Node: n.ID, Backend: b.ID, Local: n.Local, Reason: route.Cold}
			}
		}
	}
	return best
}

// hashed is rendezvous hashing, weighted by slots, of the session's key, or of the first message where there is none: the
// first node in its order whose load is not more than a quarter above the mean.
func (w *world) hashed(s *route.Snapshot, t *turn) route.Plan {
	const bound = 1.25
	slots, busy := 0, 0
	for i := range s.Nodes {
		for _, b := range s.Nodes[i].Backends {
			slots += b.Slots
			busy += b.Slots - b.Free
		}
	}
	mean := float64(busy+1) / float64(slots)
	best, most := -1, math.Inf(-1)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		c := 0
		for _, b := range n.Backends {
			c += b.Slots
		}
		if free := n.Free(); free == 0 || float64(c-free+1) > math.Ceil(bound*mean*float64(c)) {
			continue
		}
		if v := -float64(c) / math.Log(w.lot(t, i)); v > most {
			best, most = i, v
		}
	}
	if best < 0 {
		return w.any(s, func(*route.Node, *route.Backend) float64 { return 0 })
	}
	n := &s.Nodes[best]
	p := route.Plan{Node: n.ID, Local: n.Local, Reason: route.Cold}
	if h := w.home(t); h != nil && h.node.id == n.ID {
		p.Backend = h.id
	}
	return p
}

// lot is a session's number for a node, in (0, 1).
func (w *world) lot(t *turn, node int) float64 {
	h := fnv.New64a()
	key := t.session.nr
	if w.cfg.Headers == "none" {
		key = -1 - t.session.group
	}
	for _, v := range []int{key, node} {
		h.Write([]byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)})
	}
	x := h.Sum64() // its high bits are poor: the last byte has gone through one round only
	x ^= x >> 32
	x *= 0x9e3779b97f4a7c15
	return (float64(x>>11) + 0.5) / (1 << 53)
}

// home is where a turn's conversation is, by its key; without one by the prefix index. nil = nowhere.
func (w *world) home(t *turn) *engine {
	if w.cfg.Policy == Oracle {
		return nil
	}
	if w.cfg.Headers != "none" {
		return t.session.home
	}
	if w.cfg.Policy != Cost {
		return nil
	}
	var best *engine
	most := w.work.Head
	for _, e := range w.engines {
		if n := w.work.prefix(e.held[t.session], state{t.session, t.session.version, t.prompt}); n > most {
			best, most = e, n
		}
	}
	return best
}

const block = 256 // tokens a link of the prefix index stands for

// believed is what the mesh thinks a backend holds of a turn's prompt: by the key, what its last turn left there, else by
// the index, in whole blocks.
func (w *world) believed(t *turn, e *engine) int {
	if w.cfg.Policy == Oracle {
		return t.shared()
	}
	prompt := state{t.session, t.session.version, t.prompt}
	if st, ok := e.held[t.session]; ok {
		n := w.work.prefix(st, prompt)
		if w.cfg.Headers != "none" && t.session.home == e {
			return n
		}
		return n / block * block
	}
	most := 0
	for other := range e.held {
		if other.group == t.session.group {
			most = w.work.Head
			break
		}
		most = w.work.Common
	}
	return min(t.prompt, most) / block * block
}
