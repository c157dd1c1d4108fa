package engine

import (
	"context"
	"time"
)

// Acquire waits in the model's line for a slot. ctx ends the wait and gives its cause. Errors: ErrUnknownModel,
// ErrNotReady, ErrDraining, ErrFull, ErrLineFull.
func (e *Engine) Acquire(ctx context.Context, r Request) (*Lease, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	t, err := e.Queue(r)
	if err != nil {
		return nil, err
	}
	select {
	case <-t.Done():
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		t.Leave() // with what may have been granted to somebody who has left: the next one gets it
		return nil, context.Cause(ctx)
	}
	return t.Collect()
}

// granted makes the lease of a waiter; the line calls it under the lock.
func (en *entry) granted(w *Waiter) {
	b := en.backend(w.Seat.Backend)
	w.lease = &Lease{b: b, seat: w.Seat, target: b.target, context: b.slotContext(), granted: time.Now()}
	b.leases[w.lease] = struct{}{}
	b.slotsFresh = false
	b.engine.cfg.Changed()
}

// leave takes a released lease off its backend. done says that the engine has nothing left to do for it.
func (b *backend) leave(l *Lease, done bool) {
	e := b.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(b.leases, l)
	if l.worked {
		b.entry.hold.add(time.Since(l.granted))
	}
	if done {
		b.entry.line.Free(l.seat)
	} else {
		b.entry.line.Hold(l.seat, time.Now())
	}
	b.nudge()
	e.cfg.Changed()
}
