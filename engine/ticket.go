package engine

import (
	"fmt"
	"time"
)

// Ticket is a place in a model's line, or the lease it has become. It must be collected or left.
type Ticket struct {
	engine *Engine
	line   *Line
	w      *Waiter
	since  time.Time
	waited bool // nothing was free when it came

	settled bool // collected or left; guarded by Engine.mu
}

// Queue takes a free slot at once or the last place in the model's line; it never waits. Errors: ErrUnknownModel,
// ErrNotReady, ErrDraining, ErrFull, ErrLineFull.
func (e *Engine) Queue(r Request) (*Ticket, error) {
	t := &Ticket{engine: e, since: time.Now()}
	e.mu.Lock()
	defer e.mu.Unlock()
	en := e.entry(r.Model)
	switch {
	case en == nil:
		return nil, fmt.Errorf("%w: %.200q", ErrUnknownModel, r.Model)
	case e.draining || e.ended:
		return nil, ErrDraining
	}
	var err error
	if t.w, err = en.line.Join(r); err != nil {
		return nil, err
	}
	t.line = en.line
	if t.waited = t.w.Seat == nil; t.waited {
		e.cfg.Changed()
	}
	return t, nil
}

// Done is closed once the ticket can be collected.
func (t *Ticket) Done() <-chan struct{} { return t.w.Done() }

// Ahead is how many stand before it in the line, whichever slots they accept; 0 once it has left the line.
func (t *Ticket) Ahead() int {
	t.engine.mu.Lock()
	defer t.engine.mu.Unlock()
	return t.line.Ahead(t.w)
}

// Collect gives the lease, which is the caller's from then on, or says why there is none: ErrDraining, ErrNotReady. It
// wants Done to be closed and is called once.
func (t *Ticket) Collect() (*Lease, error) {
	t.engine.mu.Lock()
	defer t.engine.mu.Unlock()
	switch {
	case t.w.Err != nil:
		return nil, t.w.Err
	case t.w.lease == nil || t.settled:
		return nil, ErrFull
	}
	t.settled = true
	t.w.lease.timing = Timing{Queued: t.w.lease.granted.Sub(t.since), Waited: t.waited}
	return t.w.lease, nil
}

// Leave gives up the place, or a lease that nobody has collected: the next one gets it. Calling it again, or after
// Collect, does nothing.
func (t *Ticket) Leave() {
	t.engine.mu.Lock()
	left := !t.settled
	t.settled = true
	t.line.Leave(t.w)
	lease := t.w.lease
	if left && lease == nil {
		t.engine.cfg.Changed() // the line is shorter
	}
	t.engine.mu.Unlock()
	if left && lease != nil {
		lease.Release()
	}
}
