package sim

import "slices"

const (
	storeRoom  = 64 * gib
	importRate = 1.0e9 // bytes a second
	linkRate   = 0.117e9
	perReplica = 0.2 // s on the link, beside the bytes
	importTime = 0.5 // s, beside the bytes
)

// fetch is what a plan wants brought along.
type fetch struct{ from *node }

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

// send takes the link for so many tokens and returns when they have arrived.
func (n *node) send(tokens int) float64 {
	n.store.busy = max(n.store.busy, n.w.now) + perReplica + (float64(tokens)*tokenBytes+stateBytes)/linkRate
	return n.store.busy
}

// keep saves what a finished turn left behind, and sends it to the partner.
func (n *node) keep(st state) {
	if n.w.cfg.KV == "off" {
		return
	}
	n.store.put(st)
	if n.w.cfg.KV != "replicate" {
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
	n.w.at(n.send(st.tokens-min(has, st.tokens)), func() {
		if !st.session.ended && st.version == st.session.version && to.store.get(st.session) < st.tokens {
			to.store.put(st)
		}
	})
}

// bring gets a cache to the engine: from the node's disk, after it came from another's if the plan says so.
func (n *node) bring(e *engine, prompt state, held int, f fetch) (holds int, seconds float64) {
	if n.w.cfg.KV == "off" {
		return held, 0
	}
	s := prompt.session
	if own := n.store.get(s); f.from != nil && f.from != n && f.from.store.get(s) > max(own, held) {
		has := f.from.store.get(s)
		seconds = n.w.sinceNow(f.from.send(has - own))
		n.store.put(state{s, s.version, has})
	}
	own := min(n.store.get(s), prompt.tokens-1)
	took := importTime + state{tokens: own}.bytes()/importRate
	if own > held && took < float64(own-held)/e.class.prefill {
		return own, seconds + took
	}
	return held, seconds
}
