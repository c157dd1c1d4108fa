package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// missedChecks in a row, with nothing under way, and an engine is given up.
const missedChecks = 3

var errMisplaced = errors.New("the engine runs on other cards than it was given")

// serve opens the backend's seats and watches over it until it ends, falls silent, sickens or ctx ends.
func (b *backend) serve(ctx context.Context, t *term, p Props) error {
	b.prepareSwitch(ctx, p)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	seats, occupied := b.seats(p), 0
	var asked time.Time
	if t.resumed {
		occupied = b.occupied(ctx, t.target)
		asked = time.Now()
	}
	b.open(t.target, p, seats, occupied)
	b.engine.cfg.Log.Info("backend is ready", "backend", b.id, "slots", seats, "context", p.Context, "adopted", t.resumed && t.proc != nil)
	since := time.Now()
	defer func() { b.readyFor = max(time.Since(since), 1) }()

	watching, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { b.keepSeats(watching, t.target, asked) })
	misplaced := make(chan struct{}, 1)
	if t.proc != nil && len(b.gpus) > 0 && b.engine.cfg.Placed != nil {
		wg.Go(func() {
			if b.sitsWrong(watching, t.proc.Record().PID) {
				misplaced <- struct{}{}
			}
		})
	}
	return b.watch(ctx, t, misplaced)
}

// seats is how many requests the backend takes: what was asked for, or less when it has less.
func (b *backend) seats(p Props) int {
	want := max(1, b.model.Parallel)
	if p.Slots > 0 && p.Slots < want {
		b.engine.cfg.Log.Warn("engine has fewer slots than the model's parallel", "backend", b.id, "slots", p.Slots, "parallel", want)
		return p.Slots
	}
	return want
}

// occupied asks a running engine for how many it still works.
func (b *backend) occupied(ctx context.Context, t Target) int {
	ctx, cancel := context.WithTimeout(ctx, slotsTime)
	defer cancel()
	slots, err := b.engine.cfg.Dialect.Slots(ctx, t)
	if err != nil {
		return 0
	}
	return processing(slots)
}

func (b *backend) watch(ctx context.Context, t *term, misplaced <-chan struct{}) error {
	health := b.engine.cfg.Health
	tick := time.NewTicker(min(health.Interval, health.Stall))
	defer tick.Stop()
	missed := 0
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-misplaced:
			if !b.misplaced {
				b.misplaced = true
				return errMisplaced
			}
			b.note(fmt.Errorf("%w, after a restart too: check gpus and what else uses the cards", errMisplaced))
			b.engine.cfg.Log.Warn("backend runs on other cards than it was given", "backend", b.id)
		case <-tick.C:
			b.tidy(time.Now())
			if err := b.judge(ctx, t, &missed); err != nil {
				return err
			}
		}
	}
}

// judge decides by progress before it asks for health: an engine may answer its health check while every request
// hangs, and miss it while tokens flow.
func (b *backend) judge(ctx context.Context, t *term, missed *int) error {
	_, err := b.check(ctx, t.target)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	now := time.Now()
	quiet, owes := b.quiet(now)
	if owes && quiet >= b.engine.cfg.Health.Stall {
		b.set(StateSilent)
		return fmt.Errorf("%w for %s", ErrSilent, quiet.Round(time.Second))
	}
	if err == nil {
		*missed = 0
		b.set(StateReady)
		return nil
	}
	if owes || quiet < 2*b.engine.cfg.Health.Interval {
		*missed = 0
		b.set(StateBusy)
		return nil
	}
	if *missed++; *missed >= missedChecks {
		return fmt.Errorf("the engine missed %d health checks: %w", *missed, err)
	}
	return nil
}

// quiet tells for how long nothing has come from the engine, and whether it owes somebody something: an answer that is
// being waited for, or a slot. A client that does not read makes no engine silent, and neither does a save or restore, in
// which an engine has nothing to give to anybody.
func (b *backend) quiet(now time.Time) (time.Duration, bool) {
	var since time.Time // the longest wait
	waits := func(t time.Time) {
		if since.IsZero() || t.Before(since) {
			since = t
		}
	}
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	for l := range b.leases {
		if ns := l.waiting.Load(); ns != 0 {
			waits(time.Unix(0, ns))
		}
	}
	for _, s := range b.seated() {
		if s.State == SeatReleasing {
			waits(s.Since)
		}
	}
	for w := range b.works {
		waits(w.since)
	}
	moved := time.Unix(0, b.moved.Load())
	if since.IsZero() {
		return now.Sub(moved), false
	}
	return now.Sub(b.excused(later(since, moved), now)), true
}

// sitsWrong looks twice within the first minute whether the process is on its cards; not being able to tell is no fault.
func (b *backend) sitsWrong(ctx context.Context, pid int) bool {
	if pid <= 0 {
		return false
	}
	for _, wait := range []time.Duration{5 * time.Second, 25 * time.Second} {
		if !sleep(ctx, wait) {
			return false
		}
		asking, cancel := context.WithTimeout(ctx, 2*askTime)
		where := b.engine.cfg.Placed(asking, []int{pid}, b.gpus, b.model.Accel)
		cancel()
		if where != PlacementUnknown {
			return where == PlacementWrong
		}
	}
	return false
}
