package mesh

import (
	"sync"
	"time"
)

// nonces remembers which nonces were seen, each until a request with its time would be refused for its age. Two
// generations of half the span each are kept: a whole one is forgotten at a time, without looking at its members.
type nonces struct {
	span time.Duration // how long a nonce must be remembered
	max  int           // per generation

	mu       sync.Mutex
	young    map[[16]byte]struct{}
	old      map[[16]byte]struct{}
	turnedAt time.Time
}

func newNonces(span time.Duration, max int) *nonces {
	return &nonces{span: span, max: max, young: map[[16]byte]struct{}{}}
}

// add remembers n. fresh is false for one that was there; room is false when no more can be remembered, and then the
// request must be refused: forgetting a younger one instead would let it be replayed.
func (c *nonces) add(n [16]byte, now time.Time) (fresh, room bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch age := now.Sub(c.turnedAt); {
	case age >= 2*c.span:
		c.young, c.old, c.turnedAt = map[[16]byte]struct{}{}, nil, now
	case age >= c.span:
		c.young, c.old, c.turnedAt = map[[16]byte]struct{}{}, c.young, now
	}
	if _, seen := c.young[n]; seen {
		return false, true
	}
	if _, seen := c.old[n]; seen {
		return false, true
	}
	if len(c.young) >= c.max {
		return true, false
	}
	c.young[n] = struct{}{}
	return true, true
}
