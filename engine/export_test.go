package engine

import (
	"context"
	"net"
)

// ReachBy has engines be reached by dial; nobody may be under way to one yet.
func (e *Engine) ReachBy(dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	e.transport.DialContext = dial
}
