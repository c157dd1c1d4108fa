package tsnode

import (
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// maxDatagram is the largest UDP payload there is.
const maxDatagram = 65535

// packets is one packet connection over a socket per address family. Each socket has a reader, which ends with Close.
type packets struct {
	conns    []net.PacketConn
	received chan datagram
	closed   chan struct{}
	once     sync.Once

	mu       sync.Mutex // guards all below
	deadline time.Time
	moved    chan struct{} // closed when the deadline changes
}

// datagram is one that was received.
type datagram struct {
	payload []byte
	from    net.Addr
}

// joinPackets makes one of conns, which it owns from now on. A single one is returned as it is.
func joinPackets(conns []net.PacketConn) net.PacketConn {
	if len(conns) == 1 {
		return conns[0]
	}
	p := &packets{conns: conns, received: make(chan datagram, 64), closed: make(chan struct{}), moved: make(chan struct{})}
	for _, c := range conns {
		go p.read(c)
	}
	return p
}

// read hands on what c receives. When nobody takes it the socket's own buffer fills and then loses, as UDP may.
func (p *packets) read(c net.PacketConn) {
	buf := make([]byte, maxDatagram)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			select {
			case <-p.closed:
				return
			default:
			}
			p.Close() // half a connection would look like a network that loses packets
			return
		}
		select {
		case p.received <- datagram{append([]byte(nil), buf[:n]...), from}:
		case <-p.closed:
			return
		}
	}
}

// ReadFrom returns the next datagram of any socket.
func (p *packets) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		p.mu.Lock()
		deadline, moved := p.deadline, p.moved
		p.mu.Unlock()
		var expired <-chan time.Time
		if !deadline.IsZero() {
			if !time.Now().Before(deadline) {
				return 0, nil, os.ErrDeadlineExceeded
			}
			timer := time.NewTimer(time.Until(deadline))
			defer timer.Stop()
			expired = timer.C
		}
		select {
		case d := <-p.received:
			return copy(b, d.payload), d.from, nil
		case <-p.closed:
			return 0, nil, net.ErrClosed
		case <-expired:
			return 0, nil, os.ErrDeadlineExceeded
		case <-moved:
		}
	}
}

// WriteTo sends from the socket of the receiver's family.
func (p *packets) WriteTo(b []byte, to net.Addr) (int, error) {
	select {
	case <-p.closed:
		return 0, net.ErrClosed
	default:
	}
	return p.connFor(to).WriteTo(b, to)
}

// connFor returns the socket whose family is to's, or the first one, whose error then says why not.
func (p *packets) connFor(to net.Addr) net.PacketConn {
	want, err := netip.ParseAddrPort(to.String())
	if err != nil {
		return p.conns[0]
	}
	for _, c := range p.conns {
		own, err := netip.ParseAddrPort(c.LocalAddr().String())
		if err == nil && own.Addr().Unmap().Is4() == want.Addr().Unmap().Is4() {
			return c
		}
	}
	return p.conns[0]
}

// Close closes all sockets. Reads end with net.ErrClosed.
func (p *packets) Close() error {
	err := net.ErrClosed
	p.once.Do(func() {
		err = nil
		close(p.closed)
		for _, c := range p.conns {
			if e := c.Close(); e != nil && err == nil {
				err = e
			}
		}
	})
	return err
}

// LocalAddr is that of the first socket.
func (p *packets) LocalAddr() net.Addr { return p.conns[0].LocalAddr() }

// SetDeadline bounds reads; a write to a datagram socket does not wait.
func (p *packets) SetDeadline(t time.Time) error { return p.SetReadDeadline(t) }

// SetReadDeadline bounds ReadFrom, also one that waits already. Zero means no bound.
func (p *packets) SetReadDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deadline = t
	close(p.moved)
	p.moved = make(chan struct{})
	return nil
}

// SetWriteDeadline does nothing: a write to a datagram socket does not wait.
func (p *packets) SetWriteDeadline(time.Time) error { return nil }
