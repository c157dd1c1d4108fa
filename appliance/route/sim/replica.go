package sim

import (
	"slices"

	"viiwork/appliance/route"
)

const (
	storeRoom  = 64 * gib
	importRate = 1.0e9 // bytes a second
	linkRate   = 0.117e9
	perReplica = 0.2 // s on the link, beside the bytes
	importTime = 0.5 // s, beside the bytes
)

// store is a node's replicas on disk, least recently used first.
type store struct {
	room   float64
	states []state
	busy   float64 // until when the link out is
	mate   map[*session]*node
}

// get is what the store has of the session as it is.
func (s *store) get(of *session) int {
	for _, st := range s.states {
		if st.session == of && st.version == of.version {
			return st.tokens
		}
	}
	return 0
}

func (s *store) put(st state) {
	s.states = slices.DeleteFunc(s.states, func(old state) bool { return old.session == st.session })
	s.states = append(s.states, st)
	sum := 0.0
	for _, st := range s.states {
		sum += st.bytes()
	}
	for len(s.states) > 1 && sum > s.room {
		sum -= s.states[0].bytes()
		s.states = s.states[1:]
	}
}

func (s *store) drop(of *session) {
	s.states = slices.DeleteFunc(s.states, func(old state) bool { return old.session == of })
	delete(s.mate, of)
}

// has tells whether the store has all of a state, or a later one of its session.
func (s *store) has(st state) bool {
	for _, old := range s.states {
		if old.session == st.session {
			return old.version > st.version || old.version == st.version && old.tokens >= st.tokens
		}
	}
	return false
}

// send takes the link for so many tokens, from a moment on, and returns when they have arrived.
func (n *node) send(tokens int, from float64) float64 {
	n.store.busy = max(n.store.busy, from) + perReplica + (float64(tokens)*tokenBytes+stateBytes)/linkRate
	return n.store.busy
}

// keep stores what was saved, and sends it to the partner.
func (n *node) keep(st state) {
	if st.session.ended {
		return // nobody will ever ask for it
	}
	n.store.put(st)
	if n.w.cfg.KV != "replicate" || st.version != st.session.version {
		return
	}
	to := n.partner(st.session)
	if to == nil {
		return
	}
	has := to.store.get(st.session)
	if has == 0 {
		has = min(st.tokens, n.w.work.Head) // all nodes have the shared head
	}
	n.w.at(n.send(st.tokens-min(has, st.tokens), n.w.now), func() {
		if !st.session.ended && st.version == st.session.version && to.store.get(st.session) < st.tokens {
			to.store.put(st)
		}
	})
}

// moved is a cache on its way into an engine.
type moved struct {
	tokens int     // that the engine has then
	at     float64 // when it can be read
	stands float64 // s the engine stands still to read it
	reads  float64 // s that takes in all
}

// bring gets the cache of a turn to the engine, which has held tokens of its prompt: from the node's own store, or from another node
// first, whichever the product's arithmetic says.
func (n *node) bring(e *engine, t *turn, held int) moved {
	m := moved{tokens: held, at: n.w.now}
	if n.w.cfg.KV == "off" {
		return m
	}
	s := n.w.entries[n.nr].survey(t)
	s.Nodes[n.nr].Backends[e.at].Held = held // it is asked for what it has
	r := route.Request{Prompt: t.prompt}
	if h := n.w.home(t); h != nil {
		r.Home, r.HomeBackend = h.node.id, h.id
	}
	kind, from, _, _ := route.Fetch(*s, r, n.id, e.id)
	own := n.store.get(t.session)
	switch kind {
	case route.Pull:
		o := n.w.node(from)
		has, saved := o.offer(t.session)
		if has <= max(own, held) {
			return m
		}
		m.at = o.send(has-own, saved)
		n.store.put(state{t.session, t.session.version, has})
		own = has
	case route.Import:
	default:
		return m
	}
	m.tokens = min(own, t.prompt-1)
	bytes := state{tokens: m.tokens}.bytes()
	m.stands = bytes / saveRate
	m.reads = max(importTime+bytes/importRate, m.stands)
	return m
}
