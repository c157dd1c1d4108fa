package localcontrol

import (
	"net"
	"sync"
)

// conns is a listener that knows its open connections. Devices keep one to the control server for as long as they live,
// and the HTTP server no longer knows it: it was taken over.
type conns struct {
	net.Listener

	mu     sync.Mutex // guards all below
	open   map[net.Conn]bool
	closed bool
}

func listenLocal() (*conns, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &conns{Listener: l, open: map[net.Conn]bool{}}, nil
}

// Accept returns the next connection.
func (c *conns) Accept() (net.Conn, error) {
	in, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		in.Close()
		return nil, net.ErrClosed
	}
	c.open[in] = true
	return &conn{in, c}, nil
}

func (c *conns) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.Listener.Close()
	for in := range c.open {
		in.Close()
	}
}

// conn takes itself off the list when it closes.
type conn struct {
	net.Conn
	of *conns
}

// Close closes the connection.
func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c.Conn)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
