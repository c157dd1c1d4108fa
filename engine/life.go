package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	maxBackoff   = 60 * time.Second
	healthyAfter = 60 * time.Second // ready this long: earlier failures are forgotten
	faultAgain   = 30 * time.Second // until a fault is looked at again
	stillborns   = 3                // ended this often before it was ever ready: it will not mend itself
)

// live runs a backend from first to last. life ends it; run is the Engine's and outlives it when the model is removed.
func (b *backend) live(run, life context.Context) {
	defer close(b.done)
	defer b.changed()
	if b.clearWay(life) && b.awaitChange(life) {
		for life.Err() == nil {
			err := b.round(run, life)
			b.giveUp(life, err)
			if life.Err() == nil {
				b.changed()
				b.pause(life, err)
			}
		}
	}
	if retired(life) {
		b.vacate(life)
	}
}

// vacate ends and removes what a retired backend has left.
func (b *backend) vacate(life context.Context) {
	for _, name := range berths(b.id) {
		if p := b.engine.takeFound(name); p != nil {
			b.end(life, p)
		}
	}
	if b.leftover != nil {
		b.end(life, b.leftover)
	}
	if !b.external() {
		b.engine.clearHome(b.name)
	}
}

func retired(life context.Context) bool { return errors.Is(context.Cause(life), errRetired) }

// clearWay waits until the runner has been asked what it has, and until those before us have left.
func (b *backend) clearWay(life context.Context) bool {
	ends := b.after
	if gate := b.engine.gates[b.model.Runner]; gate != nil {
		ends = append(ends, gate)
		b.setWaitsForFind(true)
		defer b.setWaitsForFind(false)
	}
	for _, end := range ends {
		select {
		case <-end:
		case <-life.Done():
			return false
		}
	}
	return true
}

func (b *backend) setWaitsForFind(on bool) {
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	b.waitsForFind = on
}

// round takes the backend once from nothing to its end and tells why it ended.
func (b *backend) round(run, life context.Context) error {
	b.readyFor = 0
	if b.external() {
		return b.visit(run, life)
	}
	r := b.engine.cfg.Runners[b.model.Runner]
	if r == nil {
		return fault{fmt.Errorf("this machine has no runner %q: set the model's runner to docker, native or external", b.model.Runner)}
	}
	if b.leftover != nil {
		if err := b.end(life, b.leftover); err != nil {
			return fmt.Errorf("stopping the engine before: %w", err)
		}
	}
	p, err := b.prepare(life, r)
	if err != nil {
		return fault{err}
	}
	b.set(StateStarting)
	t, err := b.obtain(life, r, p)
	if err != nil {
		return err
	}
	b.attach(t.proc, t.resumed)
	return b.term(run, life, t)
}

// obtain adopts the process of an earlier run, or starts one when it is its turn.
func (b *backend) obtain(life context.Context, r Runner, p plan) (*term, error) {
	e := b.engine
	if !b.started {
		t, next, err := b.adopt(life, r, p)
		if t != nil || err != nil {
			return t, err
		}
		p = next
	}
	e.mu.Lock()
	rank := b.rank
	e.mu.Unlock()
	if err := e.turn.take(life, b.failures, rank); err != nil {
		return nil, err
	}
	if err := b.makeRoom(life); err != nil {
		e.turn.give()
		return nil, err
	}
	if b.started {
		e.mu.Lock()
		b.restarts++
		e.mu.Unlock()
	}
	b.started = true
	proc, err := r.Start(life, p.spec)
	if err != nil {
		e.turn.give()
		return nil, fmt.Errorf("starting the engine: %w", err)
	}
	return p.term(proc, false, e.turn.give), nil
}

func (p plan) term(proc Process, resumed bool, give func()) *term {
	return &term{proc: proc, target: Target{URL: proc.Record().URL, Key: p.key}, resumed: resumed, give: give}
}

// pause waits after a round that ended with err, longer with each failure.
func (b *backend) pause(life context.Context, err error) {
	if b.readyFor >= healthyAfter {
		b.failures = 0
	}
	if b.readyFor > 0 {
		b.stillborn = 0
	} else {
		b.stillborn++
	}
	b.failures++
	state, delay := StateRestarting, backoff(b.failures)
	var f fault
	limit := b.engine.cfg.Health.MaxRespawns
	switch {
	case b.external():
		delay = min(delay, maxVisitPause)
	case errors.As(err, &f):
		b.failures-- // nothing was started
		state, delay = StateFailed, faultAgain
	case limit > 0 && b.failures > limit:
		err = fmt.Errorf("given up after %d restarts: mend the cause, then restart viiwork: %w", limit, err)
		state, delay = StateFailed, 0
	case b.stillborn >= stillborns:
		state, delay = StateFailed, max(delay, faultAgain)
	}
	b.note(err)
	b.set(state)
	if b.warned != err.Error() || b.readyFor > 0 {
		b.warned = err.Error()
		b.engine.cfg.Log.Warn("backend is not serving", "backend", b.id, "retry_in", delay, "error", err)
	}
	if delay == 0 {
		<-life.Done()
		return
	}
	sleep(life, delay)
}

// backoff is 1, 2, 4 … 60 s after the first, second, third failure in a row.
func backoff(failures int) time.Duration {
	if failures > 6 {
		return maxBackoff
	}
	return min(time.Second<<max(0, failures-1), maxBackoff)
}
