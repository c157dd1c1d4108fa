package mesh

import (
	"sync"
	"time"
)

const (
	// wayShare is what a new measure counts for.
	wayShare = 0.2
	// mostWay bounds one, and wayOutlier by how many times it may exceed what is known: what took longer did not only travel.
	mostWay    = 10 * time.Second
	wayOutlier = 4
)

// ways is how long it takes to members and back, by id.
type ways struct {
	mu sync.Mutex // guards what follows
	of map[string]time.Duration
}

// took notes one way and back.
func (w *ways) took(id string, d time.Duration) {
	d = min(max(d, 0), mostWay)
	w.mu.Lock()
	defer w.mu.Unlock()
	mean, known := w.of[id]
	if !known {
		for other := range w.of {
			if len(w.of) < maxMembers {
				break
			}
			delete(w.of, other) // any one: those that are asked are soon known again
		}
		if w.of == nil {
			w.of = map[string]time.Duration{}
		}
		w.of[id] = d
		return
	}
	d = min(d, wayOutlier*max(mean, time.Millisecond))
	w.of[id] = mean + time.Duration(wayShare*float64(d-mean))
}

// RTT is how long it takes to a member and back, as the answers to asks for a seat have lately shown; 0 = not known.
func (c *Client) RTT(id string) time.Duration {
	c.ways.mu.Lock()
	defer c.ways.mu.Unlock()
	return c.ways.of[id]
}
