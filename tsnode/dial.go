package tsnode

import (
	"context"
	"net"
	"time"
)

// redialAfter are the pauses before a dial that nobody has answered is tried again, beside the tries before it.
var redialAfter = []time.Duration{1500 * time.Millisecond, 3 * time.Second}

// dialAgain is one connection out of several tries. A device drops, without a word, whatever comes from a port that it closed
// a connection with in the last minute, and the library takes any of 50,000 ports: of clients that connect ten times a second
// one in a hundred meets such a port. Another try has another port. What is answered first counts, also a refusal.
func dialAgain(ctx context.Context, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
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
	go try()
	for _, pause := range redialAfter {
		wait := time.NewTimer(pause)
		select {
		case o := <-outcomes:
			wait.Stop()
			return o.conn, o.err
		case <-ctx.Done():
			wait.Stop()
			return nil, ctx.Err()
		case <-wait.C:
			go try()
		}
	}
	select {
	case o := <-outcomes:
		return o.conn, o.err
	case <-ctx.Done(): // a device that hangs does not hear of it
		return nil, ctx.Err()
	}
}
