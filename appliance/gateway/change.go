package gateway

import "sync"

// change tells whoever waits that something is different now.
type change struct {
	mu sync.Mutex
	ch chan struct{} // closed by the next change; nil while nobody waits
}

// wait is closed by the next change. Ask before looking at what changes.
func (c *change) wait() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ch == nil {
		c.ch = make(chan struct{})
	}
	return c.ch
}

func (c *change) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ch != nil {
		close(c.ch)
		c.ch = nil
	}
}

// Changed says that this node's own slots are not what they were. It never waits and calls nobody back: an engine calls
// it with its locks held.
func (g *Gateway) Changed() { g.changed.tell() }
