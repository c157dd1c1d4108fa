package bench

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"viiwork/appliance/route/sim"
)

// Report is what a run was and what came of it.
type Report struct {
	Started  time.Time
	Took     time.Duration
	Model    string
	Entries  []string // that were used
	Single   bool
	Sessions int
	Headers  string
	Scale    float64
	Think    float64
	Context  int  // tokens of a slot
	Cut      bool // it was ended before its time
	Turns    []Turn
}

// swarm is a run.
type swarm struct {
	cfg    Config
	id     string // of the run
	client *client
	gauge  *gauge
	head   string
	start  time.Time
	full   context.CancelFunc // ends the run when it holds all the turns it can

	mu       sync.Mutex // guards what follows
	turns    []Turn
	sessions int
}

// errOver ends a run whose time is up.
var errOver = errors.New("over")

// Run plays the work against the entries until it is done, its time is up or ctx ends, and reports what came of it. What
// runs then is broken off, and not counted. An error means that nothing was measured.
func Run(ctx context.Context, cfg Config) (Report, error) {
	if err := cfg.Validate(); err != nil {
		return Report{}, err
	}
	s := &swarm{cfg: cfg, id: cryptorand.Text()[:10], client: newClient("bench swarm")}
	defer s.client.close()
	room, err := s.client.survey(ctx, &s.cfg)
	if err != nil {
		return Report{}, err
	}
	work, err := s.cfg.work(room)
	if err != nil {
		return Report{}, err
	}
	fresh := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	s.gauge = s.client.weigh(ctx, s.cfg.Entries[0], fresh)
	s.head = babble(fresh, s.gauge.bytes(int(float64(work.Head)*work.Scale)))
	r := Report{Started: time.Now(), Model: name(s.cfg.Model), Entries: s.cfg.Entries, Single: cfg.Single, Sessions: cfg.Sessions,
		Headers: cfg.Headers, Scale: work.Scale, Think: cfg.Think, Context: room}
	if cfg.Begun != nil {
		cfg.Begun(r)
	}
	over := s.play(ctx, work)
	r.Took, r.Turns, r.Cut = time.Since(r.Started), s.turns, !over
	return r, nil
}

// play lets all agents run, and reports whether they came to the end.
func (s *swarm) play(ctx context.Context, work sim.Work) bool {
	outer := ctx
	ctx, s.full = context.WithCancel(ctx)
	defer s.full()
	if s.cfg.Duration > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, s.cfg.Duration, errOver)
		defer stop()
	}
	s.start = time.Now()
	var agents sync.WaitGroup
	for i := range s.cfg.Sessions {
		a := &agent{swarm: s, named: s.cfg.Headers == "all" || s.cfg.Headers == "half" && i%2 == 0,
			rng:    rand.New(rand.NewPCG(rand.Uint64(), uint64(i))),
			course: sim.NewCourse(work, rand.New(rand.NewPCG(s.cfg.Seed, uint64(1000+i))))}
		agents.Go(func() { a.run(ctx) })
	}
	agents.Wait()
	return outer.Err() == nil
}

// tell keeps a turn.
func (s *swarm) tell(t Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.turns) == maxTurns {
		return
	}
	if s.turns = append(s.turns, t); len(s.turns) == maxTurns {
		s.full()
	}
	if s.cfg.Ended != nil {
		s.cfg.Ended(t)
	}
}

// begun numbers a session.
func (s *swarm) begun() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions++
	return s.sessions
}

// slack is the share of a context that is not planned for: our counts of tokens are guesses until an answer has come.
const slack = 0.1

// work is what agents do where a slot has so much room.
func (c Config) work(room int) (sim.Work, error) {
	w := sim.UsualWork()
	w.Think, w.Room = c.Think, int((1-slack)*float64(room))
	most := math.Floor(1000*min(1, float64(w.Room)/float64(w.LeastRoom()+8))) / 1000
	if w.Scale = c.Scale; w.Scale == 0 {
		w.Scale = most
	}
	if most <= 0 {
		return w, fmt.Errorf("a context of %d tokens is too small to hold a conversation", room)
	}
	if w.LeastRoom() > w.Room {
		return w, fmt.Errorf("at a scale of %v a session needs a context of %d tokens, and a slot has %d: give a scale of %v or less, or none",
			c.Scale, int(float64(w.LeastRoom())/(1-slack)), room, most)
	}
	return w, nil
}
