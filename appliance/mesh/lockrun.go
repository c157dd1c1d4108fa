package mesh

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	lockLook = 10 * time.Second // how often it is looked who there is
	lockPull = time.Minute      // how often another one is asked for a newer note
)

// Run keeps in mind who there is and fetches notes that this node has missed, until ctx ends.
func (l *Lock) Run(ctx context.Context) error {
	look := time.NewTicker(lockLook)
	defer look.Stop()
	var pulled time.Time
	for {
		l.remember()
		if time.Since(pulled) >= lockPull && l.pull(ctx) {
			pulled = time.Now()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
	}
}

// remember keeps who there is for the next start.
func (l *Lock) remember() {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.state
	if s.Known = l.known(); slices.Equal(s.Known, l.state.Known) {
		return
	}
	if err := s.store(l.path); err != nil {
		l.cfg.Log.Warn("who is in the mesh cannot be kept", "error", err)
		return
	}
	l.state = s
}

// pull asks one member, whoever it is, for its note. False when there is nobody to ask.
func (l *Lock) pull(ctx context.Context) bool {
	alive, _, _ := l.cfg.Members()
	alive = slices.DeleteFunc(slices.Clone(alive), func(m Member) bool { return m.ID == l.cfg.ID })
	if len(alive) == 0 || !l.cfg.Keys.Load().Secured() {
		return false
	}
	a, err := l.tell(ctx, alive[rand.IntN(len(alive))], lockMessage{Step: lockAsk})
	if err != nil {
		return true // an older one, or one that goes: another one next time
	}
	l.mu.Lock()
	s := l.state
	news := a.Note.newer(s.Note) && a.Note.Term <= s.Term+maxLeap
	if news {
		// The term stays: this node has given its voice to nobody under the note's.
		if s.Note = a.Note; s.store(l.path) == nil {
			l.state = s
		}
	}
	l.mu.Unlock()
	if news && l.cfg.Changed != nil {
		l.cfg.Changed()
	}
	return true
}
