package sim

import "slices"

const (
	tokenBytes = 64 << 10
	stateBytes = 150 * mib
	ramRate    = 5e9 // bytes a second between slot and prompt cache
)

func (s state) bytes() float64 { return float64(s.tokens)*tokenBytes + stateBytes }

// slot is one of an engine's.
type slot struct {
	state state
	used  float64 // when it was last given away,
	ended float64 // and given back
	run   *run    // nil = idle
}

// ramCache is an engine's prompt cache, oldest first.
type ramCache struct {
	room   float64
	states []state
}

// save keeps a state; what it contains whole is dropped.
func (c *ramCache) save(w *Work, s state) {
	if c.room <= 0 {
		return
	}
	c.states = slices.DeleteFunc(c.states, func(old state) bool { return old.session == s.session && w.prefix(old, s) == old.tokens })
	c.states = append(c.states, s)
}

// trim drops the oldest as far as room is lacking. One always stays.
func (c *ramCache) trim() {
	sum := 0.0
	for _, s := range c.states {
		sum += s.bytes()
	}
	for len(c.states) > 1 && sum > c.room {
		sum -= c.states[0].bytes()
		c.states = c.states[1:]
	}
}

// take removes the state that has more than least tokens in common with s, the longest.
func (c *ramCache) take(w *Work, s state, least int) (found state, ok bool) {
	at := -1
	for i, old := range c.states {
		if n := w.prefix(old, s); n > least {
			at, least = i, n
		}
	}
	if at < 0 {
		return state{}, false
	}
	found = c.states[at]
	c.states = slices.Delete(c.states, at, at+1)
	return found, true
}

// place chooses a slot as llama-server does: the first of the idle ones most like the prompt, if a tenth of the prompt is
// there, else the one unused longest. It returns how many tokens are there after what moved between slot and cache, and how long
// that took.
func (e *engine) place(prompt state) (sl *slot, held int, seconds float64) {
	w := &e.node.w.work
	for i := range e.slots {
		s := &e.slots[i]
		if s.run != nil {
			continue
		}
		n := w.prefix(s.state, prompt)
		if 10*n <= prompt.tokens {
			n = 0
		}
		if sl == nil || n > held || n == 0 && held == 0 && s.used < sl.used {
			sl, held = s, n
		}
	}
	held = w.prefix(sl.state, prompt)
	old := sl.state
	if old.session != prompt.session || old.version != prompt.version {
		e.save(old)
	}
	if 2*held < old.tokens {
		e.ram.save(w, old)
		seconds += old.bytes() / ramRate
	}
	if found, ok := e.ram.take(w, prompt, held); ok {
		held = w.prefix(found, prompt)
		seconds += found.bytes() / ramRate
	}
	e.ram.trim()
	return sl, min(held, prompt.tokens-1), seconds
}
