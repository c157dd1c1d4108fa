package kvshare

import (
	"context"
	"time"
)

const (
	// leaveLook is how often it is looked whether the others have what this node is about to take away.
	leaveLook = 200 * time.Millisecond
	// leaveStill is how long nothing more may have been copied: members do not have room for all, nor hear of what is old.
	leaveStill = 15 * time.Second
)

// Leave saves every conversation that no request runs for, whether or not that pays, and waits until another node has a copy of
// each, no more come, or ctx ends: this node is about to go, and what is in its store goes with it for a while. Its members must know that it
// is leaving, see [Net]. It tells how many have a copy elsewhere, of how many.
func (s *Share) Leave(ctx context.Context) (moved, of int) {
	if s == nil || s.net.Load() == nil {
		return 0, 0
	}
	s.saveAll(ctx)
	alone, mine := s.copied(ctx, 0)
	s.mu.Lock()
	s.alone = alone
	s.mu.Unlock()
	return mine - alone, mine
}

// LeaveLate does what Leave does for what has ended since. What Leave found nobody to copy is not waited for again.
func (s *Share) LeaveLate(ctx context.Context) {
	if s == nil || s.net.Load() == nil {
		return
	}
	s.saveAll(ctx)
	s.mu.Lock()
	most := s.alone
	s.mu.Unlock()
	s.copied(ctx, most)
}

// saveAll saves what lies in slots and is not saved as it stands.
func (s *Share) saveAll(ctx context.Context) {
	s.mu.Lock()
	var all []*bench
	for _, b := range s.benches {
		all = append(all, b)
	}
	s.mu.Unlock()
	for _, b := range all {
		s.saveBackend(ctx, b)
	}
}

// copied waits until nobody else has no more than so many of this node's conversations, or no more copies come.
func (s *Share) copied(ctx context.Context, most int) (alone, mine int) {
	look := time.NewTicker(leaveLook)
	defer look.Stop()
	least, since := -1, s.now()
	for {
		alone, mine = s.cfg.Known.Own()
		if least < 0 || alone < least {
			least, since = alone, s.now()
		}
		if alone <= most || s.now().Sub(since) > leaveStill {
			return alone, mine
		}
		select {
		case <-ctx.Done():
			return alone, mine
		case <-look.C:
		}
	}
}

// Save saves every conversation of a backend that no request runs for, whether or not that pays, until ctx ends: its engine
// is about to be replaced by one that could read them.
func (s *Share) Save(ctx context.Context, backend string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	b := s.benches[backend]
	s.mu.Unlock()
	if b != nil {
		s.saveBackend(ctx, b)
	}
}

func (s *Share) saveBackend(ctx context.Context, b *bench) {
	for b.lock(ctx) {
		job, more := s.saveRest(ctx, b)
		b.unlock()
		if !more {
			return
		}
		if job != nil {
			select {
			case <-job.done:
			case <-ctx.Done():
			}
		}
	}
}

// saveRest saves one conversation that is not saved as it stands. It wants the gate held.
func (s *Share) saveRest(ctx context.Context, b *bench) (job *saving, more bool) {
	s.mu.Lock()
	var c *conv
	for i := len(b.convs) - 1; i >= 0 && c == nil; i-- {
		if x := b.convs[i]; !x.running && x.stay.Tokens >= leastTokens && (!x.saved || s.behind(x)) {
			c = x
		}
	}
	s.mu.Unlock()
	if c == nil {
		return nil, false
	}
	job = s.saveNow(ctx, b, c)
	s.mu.Lock()
	c.saved, c.tried = true, true
	s.mu.Unlock()
	return job, true
}

// behind reports whether the store lacks a part of what lies in a slot, which it had not paid to save. It wants the lock held.
func (s *Share) behind(c *conv) bool { return !c.tried && s.kept[c.name].Tokens < c.stay.Tokens }
