package modelcopy

import (
	"context"
	"sync"
	"time"
)

const (
	// restFactor is how many times as long as a piece took the copy rests after it, while the node answers requests.
	restFactor = 3
	maxRest    = 2 * time.Second
)

// rest stands still for a while if requests run.
func rest(ctx context.Context, busy func() bool, took time.Duration) {
	if busy != nil && busy() {
		_ = sleep(ctx, min(restFactor*took, maxRest))
	}
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

const (
	// atOnce is how many copies a node gives at one time, one for each asker and model; others wait.
	atOnce = 2
	// copyFor is how long after its last question a copy still has its place.
	copyFor = 15 * time.Second
)

// places is whose copies go on.
type places struct {
	mu sync.Mutex // guards what follows
	at map[string]time.Time
}

// take tells whether a copy may go on now.
func (p *places) take(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for other, at := range p.at {
		if now.Sub(at) > copyFor {
			delete(p.at, other)
		}
	}
	if _, has := p.at[key]; !has && len(p.at) >= atOnce {
		return false
	}
	if p.at == nil {
		p.at = map[string]time.Time{}
	}
	p.at[key] = now
	return true
}

// give ends a copy's place.
func (p *places) give(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.at, key)
}
