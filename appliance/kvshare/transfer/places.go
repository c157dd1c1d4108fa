package transfer

import (
	"context"
	"sync"
	"time"
)

const (
	// maxServed is how many answers of chunks a node gives at one time; others wait for their turn.
	maxServed = 4
	// maxAsking is how many answers one member may wait for or get: it makes two transfers, and may have left two behind.
	maxAsking = 2 * atOnce
	// placeFor is how long a member keeps its place that does not take what is sent: less than others wait for theirs.
	placeFor = 2 * time.Second
)

// places bounds how many answers are read from the disk and sent at one time.
type places struct {
	taken chan struct{}

	mu   sync.Mutex     // guards what follows
	from map[string]int // answers begun and not ended, by the member's id
}

func newPlaces() *places {
	return &places{taken: make(chan struct{}, maxServed), from: map[string]int{}}
}

// begin counts an answer to a member, unless it has as many as it may.
func (p *places) begin(id string) (end func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.from[id] >= maxAsking {
		return nil, false
	}
	p.from[id]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.from[id]--; p.from[id] == 0 {
			delete(p.from, id)
		}
	}, true
}

func (p *places) enter(ctx context.Context) error {
	select {
	case p.taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *places) leave() { <-p.taken }

// during does what may take long in a place. The place is lost if it does, and waited for afterwards, so that who takes nothing
// keeps nobody from being served. lost says that ctx has ended while it was waited for: there is no place to leave any more.
func (p *places) during(ctx context.Context, act func() error) (lost bool, err error) {
	late := time.AfterFunc(placeFor, p.leave)
	err = act()
	if late.Stop() {
		return false, err
	}
	if p.enter(ctx) != nil {
		return true, context.Cause(ctx)
	}
	return false, err
}
