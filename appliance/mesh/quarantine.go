package mesh

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrSilent ends a forward whose receiver has neither begun to answer nor given a sign of life.
var ErrSilent = errors.New("the member fell silent")

const (
	firstHold = time.Second      // of a quarantine
	maxHold   = 30 * time.Second // between two probes
	// forgiveAfter is how long a member must have been well for its last quarantine not to lengthen the next.
	forgiveAfter = 5 * time.Minute
)

// Guard watches over the wait for the member's first answer byte. A member that is merely slow is waited for: it beats.
// One from which nothing at all has come for as long as makes a member stale is put into quarantine, and the returned
// context ends with ErrSilent as its cause. Call heard when the first answer byte has come; the context goes on then
// until ctx ends.
func (t *Table) Guard(ctx context.Context, id string) (guarded context.Context, heard func()) {
	guarded, cancel := context.WithCancelCause(ctx)
	g := &guard{table: t, id: id, cancel: cancel, since: t.clock.now()}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer = time.AfterFunc(t.stale, g.look)
	context.AfterFunc(guarded, g.stop)
	return guarded, g.stop
}

type guard struct {
	table  *Table
	id     string
	cancel context.CancelCauseFunc
	since  time.Time

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

func (g *guard) look() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return
	}
	last := g.since
	if heard := g.table.heard(g.id); heard.After(last) {
		last = heard
	}
	if left := g.table.stale - g.table.clock.now().Sub(last); left > 0 {
		g.timer.Reset(left)
		return
	}
	g.stopped = true
	g.table.quarantine(g.id)
	g.cancel(ErrSilent)
}

func (g *guard) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	g.timer.Stop()
}

// quarantine keeps requests away from a member until a probe of it succeeds. Several forwards that see one silence make
// one quarantine.
func (t *Table) quarantine(id string) {
	t.change(id, func(r *record) bool {
		if r.held {
			return false
		}
		if !r.freed.IsZero() && time.Since(r.freed) >= forgiveAfter {
			r.strikes = 0
		}
		r.held = true
		r.strikes++
		return true
	})
}

// free ends a quarantine.
func (t *Table) free(id string) {
	t.change(id, func(r *record) bool {
		r.held, r.freed = false, time.Now()
		return true
	})
}

// hold tells how long to wait before the n-th probe (from 0) of a member, 0 if it is not in quarantine. It doubles with
// each probe that fails and with each quarantine.
func (t *Table) hold(id string, n int) time.Duration {
	r := t.record(id)
	if r == nil || !r.held {
		return 0
	}
	return holdTime(r.strikes, n)
}

// holdTime is firstHold doubled for each strike but the first and each failed probe, at most maxHold.
func holdTime(strikes, probes int) time.Duration {
	d := firstHold
	for range max(0, strikes-1) + max(0, probes) {
		if d *= 2; d >= maxHold {
			return maxHold
		}
	}
	return d
}
