package sim

import "viiwork/appliance/route"

const (
	saveRate = 2.0e9 // bytes a second out of an engine and into it, which stands still meanwhile
	idleFor  = 2.0   // s that a slot was unused before it is saved without need
	idleLook = 0.5
)

// stand stops all streams of the engine for a while, from now or from the end of what it stands still for already.
func (e *engine) stand(seconds float64) {
	e.work()
	e.stood = max(e.stood, e.node.w.now) + seconds
	e.wake(0)
}

// save writes what an idle slot holds down into the node's store, if that pays, and reports whether it did. What is saved can be
// fetched at once: whoever saves waits for the engine all the same.
func (e *engine) save(st state) bool {
	if !e.pays(st) {
		return false
	}
	e.stand(st.bytes() / saveRate)
	e.node.keep(st)
	return true
}

// pays tells whether the standstill is worth what would have to be computed without it.
func (e *engine) pays(st state) bool {
	if e.node.w.cfg.KV == "off" || st.session == nil || e.node.store.has(st) {
		return false
	}
	stake := st.tokens
	if e.node.w.cfg.KV == "pull" && st.version == st.session.version {
		stake -= e.node.store.get(st.session)
	}
	return route.SavePays(stake, e.class.prefill, st.bytes()/saveRate, len(e.slots)-e.free())
}

// idle saves what nobody has used for a while, one after the other and the last used first, as long as the engine has nothing to do.
func (e *engine) idle() {
	if e.node.w.cfg.KV == "off" || e.free() < len(e.slots) {
		return
	}
	w := e.node.w
	var last *slot
	next := max(w.sinceNow(e.stood), idleLook)
	soon := false
	for i := range e.slots {
		s := &e.slots[i]
		switch {
		case !e.pays(s.state):
		case w.now < max(s.ended+idleFor, e.stood):
			soon = true
		case last == nil || s.ended > last.ended:
			last = s
		}
	}
	if last != nil {
		e.save(last.state)
		next = w.sinceNow(e.stood)
	}
	if soon || last != nil {
		w.after(next, e.idle)
	}
}

// unsaved is how much of a session lies in an idle slot and can be saved; 0 = none does.
func (n *node) unsaved(s *session) int {
	most := 0
	for _, e := range n.engines {
		if sl := e.holding(s); sl != nil {
			most = max(most, sl.state.tokens)
		}
	}
	return most
}

// holding is the idle slot with a session as it is, nil = none.
func (e *engine) holding(s *session) *slot {
	for i := range e.slots {
		if sl := &e.slots[i]; sl.run == nil && sl.state.session == s && sl.state.version == s.version {
			return sl
		}
	}
	return nil
}

// offer saves what of a session lies in an idle slot, if that pays, and returns how much the store has then, and when.
func (n *node) offer(s *session) (tokens int, at float64) {
	at = n.w.now
	for _, e := range n.engines {
		if sl := e.holding(s); sl != nil && e.save(sl.state) {
			at = e.stood
		}
	}
	return n.store.get(s), at
}
