package engine

import (
	"context"
	"errors"
	"slices"
	"time"
)

const (
	firstAsk  = 300 * time.Millisecond // after a lease is gone: most engines have let go by then
	nextAsk   = 2 * time.Second        // never more often: being asked keeps an engine from noticing that a client left
	slotsTime = 10 * time.Second       // it may compute a large batch first
	// grace is how long a seat stays with an engine that cannot tell what its slots do.
	grace = 3 * time.Second
	// foreignGrace is the same for a server that works for others too: their requests look like ours.
	foreignGrace = 10 * time.Second
)

// keepSeats asks the engine what its slots do while a seat waits to be let go, while somebody waits for bytes and none
// come, and once after the last request has ended. Otherwise it asks nothing.
//
// It was last asked at asked, the zero time for never.
func (b *backend) keepSeats(ctx context.Context, t Target, asked time.Time) {
	blind := false // the last answer was an error
	for {
		at, need := b.nextQuestion(asked, blind)
		if !need {
			at = time.Now().Add(b.engine.cfg.Health.Interval)
		}
		timer := time.NewTimer(time.Until(at))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-b.wake:
			timer.Stop()
			continue
		case <-timer.C:
		}
		if !need {
			continue
		}
		blind = b.ask(ctx, t)
		asked = time.Now() // not before the answer, which may have taken seconds
	}
}

// nextQuestion tells when the engine is to be asked next, if there is a reason to.
func (b *backend) nextQuestion(asked time.Time, blind bool) (time.Time, bool) {
	soonest := asked.Add(nextAsk)
	b.engine.mu.Lock()
	idle := len(b.leases) == 0 && !b.slotsFresh && !blind
	var first time.Time
	for _, s := range b.seated() {
		if s.State == SeatReleasing && (first.IsZero() || s.Since.Before(first)) {
			first = s.Since
		}
	}
	b.engine.mu.Unlock()
	if !first.IsZero() {
		wait := firstAsk
		if blind {
			wait = grace
		}
		return later(first.Add(wait), soonest), true
	}
	now := time.Now()
	interval := b.engine.cfg.Health.Interval
	if quiet, owes := b.quiet(now); owes && quiet >= interval {
		return later(asked.Add(interval), soonest), true
	}
	if idle {
		return later(now.Add(nextAsk), asked.Add(interval)), true
	}
	return time.Time{}, false
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// ask asks once and acts on the answer; it reports whether the engine could not tell.
func (b *backend) ask(ctx context.Context, t Target) bool {
	asked := time.Now()
	asking, cancel := context.WithTimeout(ctx, slotsTime)
	defer cancel()
	slots, err := b.engine.cfg.Dialect.Slots(asking, t)
	if ctx.Err() != nil {
		return false
	}
	e := b.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err == nil:
		if b.slots != nil && !slices.Equal(b.slots, slots) {
			b.moved.Store(time.Now().UnixNano())
		}
		busy := processing(slots)
		b.slots, b.slotsFresh = slots, len(b.leases) == 0 && busy == 0
		b.letGo(asked, b.vacated(asked, busy), 0)
	case asking.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return false // busy, not unable
	default:
		b.letGo(asked, len(b.seated()), grace)
	}
	if b.external() {
		b.letGo(asked, len(b.seated()), foreignGrace)
	}
	e.cfg.Changed()
	return err != nil
}

// vacated is how many of the seats that were releasing when the engine was asked it has let go of, when busy of its
// slots were processing. Only leases that were surely being worked on explain a busy slot; it wants the lock held.
func (b *backend) vacated(asked time.Time, busy int) int {
	explained := 0
	for l := range b.leases {
		if l.working(asked) {
			explained++
		}
	}
	releasing := 0
	for _, s := range b.seated() {
		if s.State == SeatReleasing && s.Since.Before(asked) {
			releasing++
		}
	}
	return min(releasing, explained+releasing-busy)
}

// letGo hands on up to n seats that had been releasing for at least that long when the engine was asked, the longest
// first; it wants the lock held.
func (b *backend) letGo(asked time.Time, n int, least time.Duration) {
	seats := slices.DeleteFunc(b.seated(), func(s *Seat) bool {
		return s.State != SeatReleasing || s.Since.After(asked.Add(-least))
	})
	slices.SortFunc(seats, func(x, y *Seat) int { return x.Since.Compare(y.Since) })
	for _, s := range seats[:min(max(n, 0), len(seats))] {
		b.entry.line.Free(s)
	}
}

func processing(slots []SlotState) int {
	n := 0
	for _, s := range slots {
		if s.Processing {
			n++
		}
	}
	return n
}
