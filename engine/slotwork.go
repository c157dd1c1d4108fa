package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// slotWorkTime is how long a save or restore may take with the wait for its slot, and for how long after the last sign
	// of life it excuses an engine that gives nothing: a state of some GiB on a slow disk takes a minute.
	slotWorkTime = 5 * time.Minute
	// endTime is how long a broken connection waits for the news that the engine behind it has ended.
	endTime = time.Second
)

var errWorkTooLong = fmt.Errorf("it took longer than %s", slotWorkTime)

// slotWork is one save or restore under way in an engine.
type slotWork struct {
	slot   int
	target Target
	home   home
	since  time.Time
	cancel context.CancelCauseFunc
}

// beginWork finds the backend and notes that its engine will be busy with one of its slots.
func (e *Engine) beginWork(ctx context.Context, id string, slot int) (*backend, *slotWork, context.Context, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.backend(id)
	switch {
	case b == nil:
		return nil, nil, nil, fmt.Errorf("%w: %.200q", ErrUnknownBackend, id)
	case b.readySince.IsZero():
		return nil, nil, nil, ErrNotReady
	case !b.savesSlots():
		return nil, nil, nil, ErrNoSlotFiles
	case slot < 0 || slot >= b.slotCount():
		// llama-server would count on from 0 and take another conversation's.
		return nil, nil, nil, errors.New("the engine has no such slot")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	w := &slotWork{slot: slot, target: b.target, home: e.homeOf(b.name), since: time.Now(), cancel: cancel}
	b.works[w] = struct{}{}
	return b, w, ctx, nil
}

// endWork notes that it is over. done says that the engine itself has said so: a sign of life.
func (b *backend) endWork(w *slotWork, done bool) {
	w.cancel(nil)
	now := time.Now()
	if done {
		b.moved.Store(now.UnixNano())
	}
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	delete(b.works, w)
	b.workEnd = now
	b.slotsFresh = false
	b.nudge()
}

// do runs ask, which asks the engine for the work, and explains its error.
func (b *backend) do(ctx context.Context, w *slotWork, ask func(context.Context) (SlotFile, error)) (SlotFile, error) {
	limited, cancel := context.WithTimeoutCause(ctx, slotWorkTime, errWorkTooLong)
	defer cancel()
	f, err := ask(limited)
	if err == nil || errors.Is(err, ErrSlotRefused) || errors.Is(err, ErrNoSlotFiles) {
		b.endWork(w, true)
		return f, err
	}
	if limited.Err() == nil {
		// The connection broke; mostly because the engine has ended, which its runner is about to say.
		select {
		case <-limited.Done():
		case <-time.After(endTime):
		}
	}
	if cause := context.Cause(limited); cause != nil {
		err = cause
	}
	b.endWork(w, false)
	return SlotFile{}, err
}

// excused moves the moment from which an engine counts as silent to the end of its last save or restore, or to now while
// one runs; it wants the lock held.
func (b *backend) excused(since, now time.Time) time.Time {
	end := b.workEnd
	if len(b.works) > 0 {
		end = now
	}
	if limit := since.Add(slotWorkTime); end.After(limit) {
		end = limit
	}
	return later(since, end)
}

// savesSlots says whether the engine was told where to keep slot files; it wants the lock held.
func (b *backend) savesSlots() bool {
	_, can := b.engine.cfg.Dialect.(SlotFiles)
	return can && b.slotDir != ""
}

// slotCount is how many slots the engine has, which may be more than its seats; it wants the lock held.
func (b *backend) slotCount() int {
	if b.props.Slots > 0 {
		return b.props.Slots
	}
	return b.model.Parallel
}
