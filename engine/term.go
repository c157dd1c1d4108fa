package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// term is one process from its start or adoption to its end; for an external server, from one sight of it to its loss.
type term struct {
	proc    Process // nil for external
	target  Target
	resumed bool   // it ran before and may still work for somebody who has left
	give    func() // hands on the turn to load
}

const maxVisitPause = 5 * time.Second

// term loads, serves and ends one process, and tells why it ended.
func (b *backend) term(run, life context.Context, t *term) error {
	alive, end := context.WithCancelCause(life)
	defer end(nil)
	watching, unwatch := context.WithCancel(context.WithoutCancel(life))
	gone := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := awaitExit(watching, t.proc); err != nil {
			end(err)
			close(gone)
		}
	})
	b.set(StateLoading)
	props, err := b.loadInTime(alive, t)
	t.give()
	if err == nil {
		err = b.serve(alive, t, props)
	}
	err = b.part(run, life, t, gone, err)
	unwatch()
	wg.Wait()
	return err
}

// visit does the same for a server somebody else runs.
func (b *backend) visit(run, life context.Context) error {
	t := &term{target: Target{URL: b.model.URL}, resumed: true}
	props, err := b.load(life, t)
	if err == nil {
		err = b.serve(life, t, props)
	}
	return b.part(run, life, t, nil, err)
}

// awaitExit returns how the process ended, or nil when ctx has.
func awaitExit(ctx context.Context, p Process) error {
	for {
		exit, err := p.Wait(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			return fmt.Errorf("the engine ended: %s", exit.Reason)
		}
		// The runner lost sight of it, as when Docker restarts; its health decides.
		if !sleep(ctx, time.Second) {
			return nil
		}
	}
}

// part ends a term: requests first, then the process, unless it is to be adopted by the next run.
func (b *backend) part(run, life context.Context, t *term, gone <-chan struct{}, err error) error {
	b.shut()
	if life.Err() != nil && !retired(life) && !b.engine.stops() {
		return err
	}
	lost := errStopped
	if retired(life) {
		b.set(StateDraining)
		err = b.drain(run, t.target, gone)
	}
	if errors.Is(err, ErrSilent) {
		lost = ErrSilent
	}
	b.abort(lost)
	if t.proc == nil {
		return err
	}
	if life.Err() == nil {
		err = withLastWords(life, t, err)
	}
	b.end(life, t.proc)
	b.attach(nil, false)
	return err
}

func (e *Engine) stops() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stop
}

// drain waits until the leases of a removed backend are released: long if nobody waits for its end. ErrSilent says that the
// engine does nothing for them.
func (b *backend) drain(run context.Context, t Target, gone <-chan struct{}) error {
	b.engine.mu.Lock()
	patience, waited := drainTime, (<-chan struct{})(nil)
	if b.calm {
		patience, waited = longDrain, b.waited
	}
	b.engine.mu.Unlock()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	look := time.NewTicker(b.engine.cfg.Health.Interval)
	defer look.Stop()
	for len(b.held()) > 0 {
		select {
		case <-b.wake:
		case <-waited:
			waited = nil
			limit.Reset(drainTime)
		case <-look.C:
			if b.hangs(run, t) {
				return ErrSilent
			}
		case <-gone:
			return nil
		case <-run.Done():
			return nil
		case <-limit.C:
			return nil
		}
	}
	return nil
}

// hangs reports whether an engine that nobody watches any more has given nothing to those who wait, for too long.
func (b *backend) hangs(ctx context.Context, t Target) bool {
	health := b.engine.cfg.Health
	quiet, owes := b.quiet(time.Now())
	if owes && quiet >= health.Interval {
		b.ask(ctx, t) // it may be in a long prefill
		quiet, owes = b.quiet(time.Now())
	}
	return owes && quiet >= health.Stall
}

// end stops a process; one that cannot be stopped is tried again before the next start.
func (b *backend) end(life context.Context, p Process) error {
	b.leftover = nil
	if err := stopProcess(life, p); err != nil {
		b.leftover = p
		b.engine.cfg.Log.Warn("engine cannot be stopped", "backend", b.id, "error", err)
		return err
	}
	return nil
}
