package tsnode

import (
	"context"
	"net"
	"sync"
	"time"
)

// redialAfter are the pauses before a dial that nobody has answered is tried again, beside the tries before it.
var redialAfter = []time.Duration{1500 * time.Millisecond, 3 * time.Second}

// dials are the tries that run through one device: who ends the device ends and waits for them.
type dials struct {
	over chan struct{} // closed when no other may begin

	mu    sync.Mutex // guards what follows: none begins once they may be waited for
	ended bool
	tries sync.WaitGroup
}

func newDials() *dials { return &dials{over: make(chan struct{})} }

// begin runs a try, unless they have been ended.
func (d *dials) begin(try func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		d.tries.Go(try)
	}
}

// end has all of them end, and wait waits until they have.
func (d *dials) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		d.ended = true
		close(d.over)
	}
}

func (d *dials) wait() { d.tries.Wait() }

// again is one connection out of several tries. A device drops, without a word, whatever comes from a port that it closed
// a connection with in the last minute, and the library takes any of 50,000 ports: of clients that connect ten times a second
// one in a hundred meets such a port. Another try has another port. What is answered first counts, also a refusal. The returned
// error is ErrNotUp once the dials have been ended.
func (d *dials) again(ctx context.Context, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		conn net.Conn
		err  error
	}
	outcomes := make(chan outcome)
	over := make(chan struct{})
	defer close(over)
	try := func() {
		c, err := dial(ctx)
		select {
		case outcomes <- outcome{c, err}:
		case <-over:
			if err == nil {
				c.Close() // another try was quicker
			}
		}
	}
	d.begin(try)
	for _, pause := range redialAfter {
		wait := time.NewTimer(pause)
		select {
		case o := <-outcomes:
			wait.Stop()
			return o.conn, o.err
		case <-ctx.Done():
			wait.Stop()
			return nil, ctx.Err()
		case <-d.over:
			wait.Stop()
			return nil, ErrNotUp
		case <-wait.C:
			d.begin(try)
		}
	}
	select {
	case o := <-outcomes:
		return o.conn, o.err
	case <-ctx.Done(): // a device that hangs does not hear of it
		return nil, ctx.Err()
	case <-d.over:
		return nil, ErrNotUp
	}
}
