package mesh

import (
	"sync"
	"time"
)

// steadyClock follows the machine's clock forward and never back. What may be forgotten because its time is over must
// not come into its time again when somebody sets the clock back.
type steadyClock struct {
	now func() time.Time // of the machine

	mu    sync.Mutex
	wall  time.Time // last told
	since time.Time // monotonic, when it was told
}

func newSteadyClock(now func() time.Time) *steadyClock {
	if now == nil {
		now = time.Now
	}
	return &steadyClock{now: now, wall: now().Round(0), since: time.Now()}
}

func (c *steadyClock) tell() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := time.Since(c.since)
	c.since = c.since.Add(passed)
	c.wall = c.wall.Add(passed)
	if wall := c.now().Round(0); wall.After(c.wall) {
		c.wall = wall
	}
	return c.wall
}
