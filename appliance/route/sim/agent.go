package sim

import (
	"math"
	"math/rand/v2"
)

// work is what agents do.
type work struct {
	head   int     // tokens of a session's beginning
	common int     // of which all sessions share so many; the rest is that of its group
	groups int     // of sessions with one first message
	output float64 // median tokens of an answer
}

func usualWork() work { return work{head: 6000, common: 4000, groups: 1, output: 350} }

// agent is one client: it has a request, waits for the answer, thinks, has the next one, for ever.
type agent struct {
	w     *world
	rng   *rand.Rand // of its own, so that all policies see the same work
	entry int        // node its requests enter by

	session   *session
	turnsLeft int
	threshold int // tokens at which it rewrites its history
}

// session is one conversation. Its context is what the last turn left: prompt and answer.
type session struct {
	nr      int
	group   int
	version int // grows as the history is rewritten: of the cache of before only the head is still right
	context int
	home    *engine // of its last turn; nil = none yet
	node    int     // of the turn before
	ended   bool
}

// kind of a turn.
type kind int

const (
	ordinary kind = iota
	first
	summary
	rewritten
)

func (a *agent) start() {
	a.begin(true)
	a.first()
}

// begin makes a new session. That with which an agent starts is somewhere in its course.
func (a *agent) begin(early bool) {
	a.w.sessions++
	a.session = &session{nr: a.w.sessions, group: a.w.sessions % a.w.work.groups, node: -1}
	a.turnsLeft = 40 + a.rng.IntN(121)
	if early {
		a.turnsLeft = 1 + a.rng.IntN(a.turnsLeft)
	}
	a.threshold = 60_000 + a.rng.IntN(35_001)
}

func (a *agent) first() { a.turn(first, a.w.work.head+100, a.output()) }

func (a *agent) turn(k kind, prompt, output int) {
	t := &turn{agent: a, session: a.session, kind: k, prompt: prompt, output: output, had: a.session.context, since: a.w.now}
	a.w.submit(t)
}

// answered goes on after a turn.
func (a *agent) answered(t *turn) {
	a.session.context = t.prompt + t.output
	a.turnsLeft--
	if t.kind == summary {
		a.w.after(0.5, func() {
			a.session.version++
			a.turn(rewritten, a.w.work.head+2500+a.addition(), a.output())
		})
		return
	}
	if a.turnsLeft <= 0 {
		a.again()
		return
	}
	more := a.addition()
	if next := a.session.context + more; next <= a.threshold {
		output := a.output()
		a.w.after(a.thought(), func() { a.turn(ordinary, next, output) })
		return
	}
	a.w.after(0.5, func() { a.turn(summary, a.session.context+300, 1250) })
}

// again thinks and begins another session.
func (a *agent) again() {
	a.w.forget(a.session)
	a.w.after(a.thought(), func() {
		a.begin(false)
		a.first()
	})
}

func (a *agent) output() int {
	return int(min(max(logNormal(a.rng, a.w.work.output, 0.6), 100), 800*a.w.work.output/350))
}
func (a *agent) addition() int    { return int(min(max(logNormal(a.rng, 180, 1.75), 20), 12_000)) }
func (a *agent) thought() float64 { return min(logNormal(a.rng, 8, 1.1), 240) }

func logNormal(rng *rand.Rand, median, sigma float64) float64 {
	return median * math.Exp(sigma*rng.NormFloat64())
}

// prefix is how many tokens two states of conversations have in common.
func (w *work) prefix(a, b state) int {
	switch {
	case a.session == nil || b.session == nil:
		return 0
	case a.session == b.session && a.version == b.version:
		return min(a.tokens, b.tokens)
	case a.session.group == b.session.group:
		return min(a.tokens, b.tokens, w.head)
	}
	return min(a.tokens, b.tokens, w.common)
}

// state is what a slot, a cache or a replica holds of a session.
type state struct {
	session *session
	version int
	tokens  int
}
