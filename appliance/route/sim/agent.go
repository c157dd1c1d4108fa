package sim

import "math/rand/v2"

// agent is one client: it has a request, waits for the answer, thinks, has the next one, for ever.
type agent struct {
	w      *world
	rng    *rand.Rand // of its own, so that all policies see the same work
	course *Course    // by that rng
	entry  int        // node its requests enter by

	session *session
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

func (a *agent) start() { a.submit(a.course.Begin()) }

// submit asks the agent's entry for a turn, in a session of its own if it is the first of one.
func (a *agent) submit(t Turn) {
	switch t.Kind {
	case First:
		a.w.sessions++
		a.session = &session{nr: a.w.sessions, group: a.w.sessions % a.w.work.Groups, node: -1}
	case Rewritten:
		a.session.version++
	}
	a.w.submit(&turn{agent: a, session: a.session, kind: t.Kind, prompt: t.Prompt, output: t.Output, had: a.session.context, since: a.w.now})
}

// answered goes on after a turn.
func (a *agent) answered(t *turn) {
	a.session.context = t.prompt + t.output
	a.then(a.course.Next(a.session.context))
}

// again gives the session up and begins another one.
func (a *agent) again() { a.then(a.course.Begin()) }

// then thinks, and submits a turn.
func (a *agent) then(t Turn) {
	if t.Kind == First {
		a.w.forget(a.session)
	}
	a.w.after(t.Think, func() { a.submit(t) })
}

// prefix is how many tokens two states of conversations have in common.
func (w *Work) prefix(a, b state) int {
	switch {
	case a.session == nil || b.session == nil:
		return 0
	case a.session == b.session && a.version == b.version:
		return min(a.tokens, b.tokens)
	case a.session.group == b.session.group:
		return min(a.tokens, b.tokens, w.Head)
	}
	return min(a.tokens, b.tokens, w.Common)
}

// state is what a slot, a cache or a replica holds of a session.
type state struct {
	session *session
	version int
	tokens  int
}
