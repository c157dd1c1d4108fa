package enginetest

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
)

// streamedConn is a connection that may have carried a stream. The engine closes those afterwards, without having
// announced it: a client that takes such a connection for reusable loses its next request.
type streamedConn struct {
	net.Conn
	streamed atomic.Bool
}

// trackingListener wraps what it accepts as a streamedConn.
type trackingListener struct{ net.Listener }

func (l trackingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &streamedConn{Conn: c}, nil
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// markStreamed notes that the connection of a request carries a stream.
func markStreamed(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*streamedConn); ok {
		c.streamed.Store(true)
	}
}

func closeStreamed(c net.Conn, state http.ConnState) {
	if sc, ok := c.(*streamedConn); ok && state == http.StateIdle && sc.streamed.Load() {
		c.Close()
	}
}
