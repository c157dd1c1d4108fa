package engine

import (
	"context"
	"sync"
	"time"
)

// gatherTime is how long the first to load waits for others that come at the same moment, as all do when the node
// starts: the owner's order decides between them, not chance.
const gatherTime = 100 * time.Millisecond

// turn lets one backend of this machine load, or change, at a time: several at once would fight over the disk, and an engine that
// fits its cards by itself would count memory which another is about to take.
type turn struct {
	mu      sync.Mutex
	taken   bool
	waiting []*turnPlace
}

type turnPlace struct {
	failures, rank int // who failed less goes first, then the owner's order
	ready          chan struct{}
}

func (p *turnPlace) before(q *turnPlace) bool {
	if p.failures != q.failures {
		return p.failures < q.failures
	}
	return p.rank < q.rank
}

// take waits for the turn; who got it calls give exactly once.
func (t *turn) take(ctx context.Context, failures, rank int) error {
	p := &turnPlace{failures: failures, rank: rank, ready: make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, p)
	if !t.taken {
		t.taken = true
		if failures > 0 {
			t.next()
		} else {
			time.AfterFunc(gatherTime, t.give)
		}
	}
	t.mu.Unlock()
	select {
	case <-p.ready:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	for i, q := range t.waiting {
		if q == p {
			t.waiting = append(t.waiting[:i], t.waiting[i+1:]...)
			t.mu.Unlock()
			return context.Cause(ctx)
		}
	}
	t.mu.Unlock()
	t.give() // it was handed over in the same moment
	return context.Cause(ctx)
}

func (t *turn) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next()
}

func (t *turn) next() {
	if len(t.waiting) == 0 {
		t.taken = false
		return
	}
	first := 0
	for i, p := range t.waiting {
		if p.before(t.waiting[first]) {
			first = i
		}
	}
	close(t.waiting[first].ready)
	t.waiting = append(t.waiting[:first], t.waiting[first+1:]...)
}
