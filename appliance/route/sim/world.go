package sim

import (
	"math/rand/v2"
	"strconv"
)

// world is one run.
type world struct {
	clock
	cfg     Config
	work    Work
	rng     *rand.Rand
	nodes   []*node
	engines []*engine
	entries []*entry
	tally   tally

	sessions int
	picks    uint64
}

// turn is one request of an agent.
type turn struct {
	agent   *agent
	session *session
	kind    Kind
	prompt  int
	output  int
	had     int     // tokens of context the session had before
	since   float64 // when it was first submitted
	tries   int
	polls   bool // its next look at the entry is under way
}

// shared is how many of the prompt's tokens have been computed before, somewhere.
func (t *turn) shared() int {
	if t.kind == First || t.kind == Rewritten {
		return min(t.agent.w.work.Head, t.prompt-1)
	}
	return min(t.had, t.prompt-1)
}

func newWorld(cfg Config, f fleet) *world {
	w := &world{cfg: cfg, work: f.work, rng: rand.New(rand.NewPCG(cfg.Seed, 1))}
	w.tally = tally{w: w}
	for i, m := range f.machines {
		n := newNode(w, i, m)
		w.nodes = append(w.nodes, n)
		w.engines = append(w.engines, n.engines...)
	}
	for _, n := range w.nodes {
		w.entries = append(w.entries, newEntry(w, n))
	}
	for i := range cfg.Sessions {
		rng := rand.New(rand.NewPCG(cfg.Seed, uint64(1000+i)))
		a := &agent{w: w, rng: rng, course: NewCourse(f.work, rng), entry: i % len(w.nodes)}
		if cfg.OneEntry {
			a.entry = 0
		}
		w.at(a.rng.Float64()*300, a.start)
	}
	for _, e := range w.entries {
		for _, o := range w.nodes {
			if o != e.self {
				w.at(w.rng.Float64()*pollEvery, func() { w.polled(e, o) })
			}
		}
	}
	return w
}

func (w *world) polled(e *entry, o *node) {
	e.poll(o)
	w.after(pollEvery, func() { w.polled(e, o) })
}

func (w *world) node(id string) *node {
	i, _ := strconv.Atoi(id[1:])
	return w.nodes[i]
}

func (w *world) engineAt(n *node, id string) *engine {
	i, _ := strconv.Atoi(id[1:])
	return n.engines[i]
}

func (w *world) sinceNow(t float64) float64 { return max(0, t-w.now) }

// patience is how long a request waits before it is refused.
func (w *world) patience() float64 {
	if w.cfg.Policy == Cost || w.cfg.Policy == Oracle {
		return 60
	}
	return 20
}

func (w *world) submit(t *turn) {
	w.tally.submitted()
	w.entries[t.agent.entry].submit(t)
}

const maxTries = 30

// refused makes the client try again, as it is told to; in the end it gives the session up.
func (w *world) refused(t *turn) {
	w.tally.refused()
	if t.tries++; t.tries > maxTries {
		t.agent.again()
		return
	}
	w.after(2*(1+0.25*t.agent.rng.Float64()), func() { w.submit(t) })
}

// spoke notes the first token of an answer.
func (w *world) spoke(t *turn, at float64) { w.tally.spoke(t, at) }

func (w *world) done(t *turn) {
	w.tally.done()
	t.session.node = t.session.home.node.nr
	t.agent.answered(t)
}

// forget removes a session that has ended. One that was given up before its first answer has no home.
func (w *world) forget(s *session) {
	s.ended = true
	for _, e := range w.engines {
		delete(e.held, s)
	}
	for _, n := range w.nodes {
		n.store.drop(s)
	}
	if home := s.home; home != nil {
		w.after(active, func() { delete(home.residents, s) })
	}
}
