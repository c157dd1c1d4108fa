package history

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"viiwork/appliance/status"
)

const (
	step     = 10 * time.Second // between two figures of a series
	keepFor  = 24 * time.Hour
	fineRows = int(time.Hour / step)
	// coarse is the time that the older figures are means of.
	coarse     = time.Minute
	coarseRows = int(keepFor / coarse)
	saveEvery  = time.Minute // what is not a ring
	countEvery = 5 * time.Second
)

// Config is what a Store is made of.
type Config struct {
	Dir string // of its own
	// Sample gives the figures of this moment by the names of their series, every 10 s. One that is not known is left out.
	Sample func() map[string]float64
	// Watts is what the cards draw now; false = none tells.
	Watts func() (float64, bool)
	Now   func() time.Time // nil = time.Now
	Log   *slog.Logger     // nil = silent
}

// Store is a node's history. See the package comment.
type Store struct {
	cfg    Config
	turned chan struct{} // holds one: there are turns to write

	mu    sync.Mutex // guards what follows, but for the files, which are Run's
	rings *rings
	turns *turns
	uses  *uses

	firsts   []status.First // as they were counted last
	firstsAt time.Time
}

// Open reads what an earlier run has left. It fails only where nothing can be written either.
func Open(cfg Config) (*Store, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making a place for the history: %w", err)
	}
	sweep(cfg.Dir)
	s := &Store{cfg: cfg, turned: make(chan struct{}, 1)}
	var err error
	if s.rings, err = openRings(cfg.Dir); err != nil {
		return nil, err
	}
	if s.turns, err = openTurns(cfg.Dir, cfg.Now()); err != nil {
		s.rings.close()
		return nil, err
	}
	s.uses = openUses(cfg.Dir)
	return s, nil
}

// Run takes figures and writes until ctx ends, and closes the store. Where the disk takes nothing, the memory still has it.
func (s *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(step)
	defer tick.Stop()
	save := time.NewTicker(saveEvery)
	defer save.Stop()
	last := s.cfg.Now()
	for {
		select {
		case <-ctx.Done():
			s.write(true)
			s.rings.close()
			return nil
		case <-tick.C:
			now := s.cfg.Now()
			s.sample(now, now.Sub(last))
			last = now
		case <-s.turned:
			s.write(false)
		case <-save.C:
			s.write(true)
		}
	}
}

// sample takes the figures of a moment, and what the cards have drawn since the last.
func (s *Store) sample(now time.Time, since time.Duration) {
	figures := s.cfg.Sample()
	watts, told := s.cfg.Watts()
	s.mu.Lock()
	if told && since > 0 && since < 6*step {
		s.uses.drew(now, watts*since.Hours()/1000)
	}
	unsaved := s.rings.add(now, figures)
	s.mu.Unlock()
	if err := s.rings.save(unsaved); err != nil {
		s.cfg.Log.Debug("writing the history", "error", err)
	}
}

// write brings to disk what is no ring. The disk may take its time: nobody waits for the lock meanwhile.
func (s *Store) write(all bool) {
	s.mu.Lock()
	lines := s.turns.unwritten()
	s.mu.Unlock()
	n, err := s.turns.append(lines)
	s.mu.Lock()
	s.turns.unsaved.Next(n)
	var doc []byte
	if all && err == nil {
		doc, err = s.uses.unwritten()
	}
	s.mu.Unlock()
	if doc != nil {
		if err = replace(s.uses.path, doc); err != nil {
			s.mu.Lock()
			s.uses.dirty = true
			s.mu.Unlock()
		}
	}
	if err != nil {
		s.cfg.Log.Debug("writing the history", "error", err)
	}
}

// Ended takes account of a request that came in by this node. It does not wait for the disk.
func (s *Store) Ended(r status.Request) {
	if s == nil {
		return
	}
	now := s.cfg.Now()
	s.mu.Lock()
	s.uses.add(now, r)
	full := s.turns.add(now, r)
	s.mu.Unlock()
	if full {
		select {
		case s.turned <- struct{}{}:
		default:
		}
	}
}

// Firsts tells how requests of the last hour and day began.
func (s *Store) Firsts() []status.First {
	if s == nil {
		return []status.First{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.cfg.Now(); s.firsts == nil || now.Sub(s.firstsAt) > countEvery || now.Before(s.firstsAt) {
		s.firsts, s.firstsAt = s.turns.firsts(now), now
	}
	return s.firsts
}

// Uses tells who asked for how much today and in seven days; node is this node's name.
func (s *Store) Uses(node string) []status.Use {
	if s == nil {
		return []status.Use{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uses.told(node, s.cfg.Now())
}

// Power tells what the cards draw, nil where none tells.
func (s *Store) Power(cards []status.GPU) *status.Power {
	p := status.Power{Of: len(cards)}
	for _, c := range cards {
		if c.Watts != nil {
			p.Watts += *c.Watts
			p.Cards++
		}
	}
	if s == nil || p.Cards == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.KWhToday = s.uses.energy(s.cfg.Now())
	return &p
}

// Series gives the figures of series, every 10 s of the last hour or, for a day, of every minute.
func (s *Store) Series(day bool) status.Series {
	if s == nil {
		return status.Series{Lines: []status.Line{}}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rings.read(s.cfg.Now(), day)
}
