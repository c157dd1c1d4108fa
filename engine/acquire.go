package engine

import (
	"context"
	"fmt"
	"time"
)

// Acquire waits in the model's line for a slot. ctx ends the wait and gives its cause. Errors: ErrUnknownModel,
// ErrNotReady, ErrDraining, ErrFull, ErrLineFull.
func (e *Engine) Acquire(ctx context.Context, r Request) (*Lease, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	start := time.Now()
	w, line, err := e.join(r)
	if err != nil {
		return nil, err
	}
	waited := false
	select {
	case <-w.Done():
	default:
		waited = true
		select {
		case <-w.Done():
		case <-ctx.Done():
		}
	}
	e.mu.Lock()
	line.Leave(w)
	lease, err := w.lease, w.Err
	e.mu.Unlock()
	if ctx.Err() != nil {
		if lease != nil {
			lease.Release() // granted to somebody who has left: the next one gets it
		}
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	lease.timing = Timing{Queued: time.Since(start), Waited: waited}
	return lease, nil
}

func (e *Engine) join(r Request) (*Waiter, *Line, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	en := e.entry(r.Model)
	switch {
	case en == nil:
		return nil, nil, fmt.Errorf("%w: %.200q", ErrUnknownModel, r.Model)
	case e.draining || e.ended:
		return nil, nil, ErrDraining
	}
	w, err := en.line.Join(r)
	return w, en.line, err
}

// granted makes the lease of a waiter; the line calls it under the lock.
func (en *entry) granted(w *Waiter) {
	b := en.backend(w.Seat.Backend)
	w.lease = &Lease{b: b, seat: w.Seat, target: b.target, context: b.slotContext()}
	b.leases[w.lease] = struct{}{}
	b.slotsFresh = false
	b.engine.held++
	b.engine.cfg.Changed()
}

// leave takes a released lease off its backend. done says that the engine has nothing left to do for it.
func (b *backend) leave(l *Lease, done bool) {
	e := b.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(b.leases, l)
	e.held--
	if e.held == 0 && e.idle != nil {
		close(e.idle)
		e.idle = nil
	}
	if done {
		b.entry.line.Free(l.seat)
	} else {
		b.entry.line.Hold(l.seat, time.Now())
	}
	b.nudge()
	e.cfg.Changed()
}
