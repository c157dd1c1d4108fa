package transfer

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// atOnce is how many transfers a node makes at one time.
	atOnce = 2
	// yieldFor is how often a copy that nobody waits for looks whether requests still run.
	yieldFor = 50 * time.Millisecond
)

// turns lets so many transfers go on at one time, those that somebody waits for before the others.
type turns struct {
	mu      sync.Mutex // guards what follows
	taken   int
	waiting [2][]chan struct{} // foreground, background; closed when it is their turn
}

func (t *turns) take(ctx context.Context, background bool) error {
	line := 0
	if background {
		line = 1
	}
	t.mu.Lock()
	if t.taken < atOnce {
		t.taken++
		t.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	t.waiting[line] = append(t.waiting[line], mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(t.waiting[line], mine)
	if i >= 0 {
		t.waiting[line] = slices.Delete(t.waiting[line], i, i+1)
	}
	t.mu.Unlock()
	if i < 0 { // it came at the same moment
		t.give()
	}
	return context.Cause(ctx)
}

func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, line := range t.waiting {
		if len(line) > 0 {
			close(line[0])
			t.waiting[i] = line[1:]
			return
		}
	}
	t.taken--
}

// yield waits until busy is over.
func yield(ctx context.Context, busy func() bool) error {
	for busy != nil && busy() {
		if err := sleep(ctx, yieldFor); err != nil {
			return err
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
