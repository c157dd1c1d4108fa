package sim

import "viiwork/appliance/route"

// engine is one backend: slots that share its speed.
type engine struct {
	node  *node
	at    int // among the node's
	id    string
	class class
	slots []slot
	ram   ramCache

	residents map[*session]*resident
	held      map[*session]state // what the prefix index has of it

	since float64 // when the work below was last brought up to date
	stood float64 // until when all of it stands still, for a cache that is moved
	next  uint64  // of the events only the last one counts
}

type resident struct {
	last    float64 // active
	running int
}

// run is a turn in a slot: it waits for its caches, computes its prompt, generates.
type run struct {
	turn     *turn
	slot     *slot
	began    float64
	ready    bool    // caches are moved
	prompt   float64 // tokens to compute
	produced float64
	reused   int
	spoke    bool
}

const overhead = 0.3 // s, of any request

func (e *engine) free() int {
	n := 0
	for i := range e.slots {
		if e.slots[i].run == nil {
			n++
		}
	}
	return n
}

// start gives a turn one of the free slots.
func (e *engine) start(t *turn) {
	w := e.node.w
	e.work()
	prompt := state{t.session, t.session.version, t.prompt}
	sl, held, moving := e.place(prompt)
	cache := e.node.bring(e, t, held)
	held = cache.tokens
	if w.cfg.Policy == Oracle {
		held = t.shared()
	}
	r := &run{turn: t, slot: sl, began: w.now, prompt: float64(t.prompt - held), reused: held}
	sl.run, sl.used = r, w.now
	sl.state = state{t.session, t.session.version, t.prompt + t.output}
	e.live(t.session)
	begins := max(cache.at, e.stood)
	if cache.stands > 0 {
		w.at(begins+cache.reads-cache.stands, func() { e.stand(cache.stands) })
	}
	w.at(begins+cache.reads+overhead+moving, func() {
		e.work()
		r.ready = true
		e.plan()
	})
	w.tally.placed(t, e, held)
	e.node.changed()
}

// live makes e the session's home.
func (e *engine) live(s *session) {
	if s.home != nil && s.home != e {
		delete(s.home.residents, s)
		s.home.node.changed()
	}
	s.home = e
	r := e.residents[s]
	if r == nil {
		r = &resident{}
		e.residents[s] = r
	}
	r.last, r.running = e.node.w.now, 1
	e.held[s] = e.slotOf(s)
}

func (e *engine) slotOf(s *session) state {
	for i := range e.slots {
		if r := e.slots[i].run; r != nil && r.turn.session == s {
			return e.slots[i].state
		}
	}
	return state{}
}

// rates are what each prompt and each stream gets now.
func (e *engine) rates() (prefill, decode float64) {
	prompts, streams := 0, 0
	for i := range e.slots {
		switch r := e.slots[i].run; {
		case r == nil || !r.ready:
		case r.prompt > 0:
			prompts++
		default:
			streams++
		}
	}
	decode = e.class.decode / (1 + e.class.slowdown*float64(max(0, streams-1)))
	if prompts > 0 {
		decode *= 0.15
	}
	return e.class.prefill / float64(max(1, prompts)), decode
}

// work does what was to be done since the last time.
func (e *engine) work() {
	d := e.node.w.now - max(e.since, min(e.stood, e.node.w.now))
	e.since = e.node.w.now
	if d <= 0 {
		return
	}
	prefill, decode := e.rates()
	for i := range e.slots {
		switch r := e.slots[i].run; {
		case r == nil || !r.ready:
		case r.prompt > 0:
			r.prompt -= d * prefill
		default:
			r.produced += d * decode
		}
	}
}

const nearly = 1e-6 // tokens

// plan ends what has come to its end, and sees to the next such moment.
func (e *engine) plan() {
	w := e.node.w
	var done []*run
	for i := range e.slots {
		r := e.slots[i].run
		if r == nil || !r.ready {
			continue
		}
		if r.prompt <= nearly && !r.spoke {
			r.prompt, r.spoke = 0, true
			w.spoke(r.turn, w.now+1/e.class.decode)
			e.node.rate((w.now + 1/e.class.decode - r.began) / float64(r.turn.prompt))
			e.node.changed()
		}
		if r.spoke && r.produced >= float64(r.turn.output)-nearly {
			e.slots[i].run = nil
			e.slots[i].ended = w.now
			done = append(done, r)
		}
	}
	prefill, decode := e.rates()
	soon := -1.0
	for i := range e.slots {
		r := e.slots[i].run
		if r == nil || !r.ready {
			continue
		}
		left := r.prompt / prefill
		if r.prompt == 0 {
			left = (float64(r.turn.output) - r.produced) / decode
		}
		if soon < 0 || left < soon {
			soon = left
		}
	}
	e.next++
	if soon >= 0 {
		e.wake(w.sinceNow(e.stood) + soon)
	}
	for _, r := range done {
		e.end(r)
	}
	if len(done) > 0 {
		e.idle()
	}
}

// wake plans anew after a while, unless that happens before.
func (e *engine) wake(in float64) {
	e.next++
	nr := e.next
	e.node.w.after(in, func() {
		if e.next == nr {
			e.work()
			e.plan()
		}
	})
}

func (e *engine) end(r *run) {
	s := r.turn.session
	if res := e.residents[s]; res != nil {
		res.last, res.running = e.node.w.now, 0
	}
	e.node.w.done(r.turn)
	e.node.freed(e)
}

// running is what the owner says of the slots.
func (e *engine) running() (all []route.Running, outstanding, decoding int) {
	for i := range e.slots {
		r := e.slots[i].run
		if r == nil {
			continue
		}
		all = append(all, route.Running{Produced: int(r.produced), Prompt: int(r.prompt)})
		outstanding += int(r.prompt)
		if r.spoke {
			decoding++
		}
	}
	return all, outstanding, decoding
}
