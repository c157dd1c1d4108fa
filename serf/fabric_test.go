package serf_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"
)

// latency of a packet in the fabric.
const latency = time.Millisecond

// fabric is a network in memory, for use inside a synctest bubble. Packets and streams between two hosts vanish while
// cut says so.
type fabric struct {
	mu    sync.Mutex
	hosts map[netip.Addr]*host
	cut   func(a, b netip.Addr) bool
	bytes int // of all packets sent
	large int // the largest packet
}

func newFabric() *fabric { return &fabric{hosts: map[netip.Addr]*host{}} }

// host returns a new network whose address ends in n.
func (f *fabric) host(n int) *host {
	f.mu.Lock()
	defer f.mu.Unlock()
	addr := netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})
	h := &host{f: f, addr: addr}
	f.hosts[addr] = h
	return h
}

// setCut says from now on between whom nothing gets through, in either direction.
func (f *fabric) setCut(cut func(a, b netip.Addr) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut = cut
}

// unplug cuts hosts off from everybody.
func (f *fabric) unplug(gone ...*host) {
	f.setCut(func(a, b netip.Addr) bool {
		for _, h := range gone {
			if a == h.addr || b == h.addr {
				return true
			}
		}
		return false
	})
}

func (f *fabric) isCut(a, b netip.Addr) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cut != nil && (f.cut(a, b) || f.cut(b, a))
}

func (f *fabric) at(addr netip.AddrPort) *host {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.hosts[addr.Addr()]; h != nil && h.port == addr.Port() {
		return h
	}
	return nil
}

// host is one machine of the fabric: a serf.Network. Its sockets are replaced each time it listens.
type host struct {
	f       *fabric
	addr    netip.Addr
	port    uint16 // guarded by f.mu, as are the sockets
	streams *memListener
	packets *memPackets
}

func (h *host) Addr() netip.Addr { return h.addr }

func (h *host) addrPort() netip.AddrPort { return netip.AddrPortFrom(h.addr, 7946) }

func (h *host) ListenStream(port int) (net.Listener, error) {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	h.port = uint16(port)
	h.streams = &memListener{addr: netip.AddrPortFrom(h.addr, h.port), conns: make(chan net.Conn), done: make(chan struct{})}
	return h.streams, nil
}

func (h *host) ListenPacket(port int) (net.PacketConn, error) {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	h.port = uint16(port)
	h.packets = &memPackets{h: h, in: make(chan memPacket, 1024), done: make(chan struct{})}
	return h.packets, nil
}

func (h *host) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	if h.f.isCut(h.addr, to.Addr()) {
		<-ctx.Done() // a dead peer does not even refuse
		return nil, ctx.Err()
	}
	peer := h.f.at(to)
	if peer == nil {
		return nil, errors.New("connection refused")
	}
	h.f.mu.Lock()
	l := peer.streams
	h.f.mu.Unlock()
	here, there := net.Pipe()
	from := netip.AddrPortFrom(h.addr, 40000)
	select {
	case l.conns <- &memConn{Conn: there, f: h.f, local: to, remote: from}:
		return &memConn{Conn: here, f: h.f, local: from, remote: to}, nil
	case <-l.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// send puts one packet on the wire, from an address that may be a lie.
func (f *fabric) send(from, to netip.AddrPort, b []byte) {
	if f.isCut(from.Addr(), to.Addr()) {
		return
	}
	peer := f.at(to)
	f.mu.Lock()
	f.bytes += len(b)
	f.large = max(f.large, len(b))
	f.mu.Unlock()
	if peer == nil {
		return
	}
	p := memPacket{from: from, b: append([]byte(nil), b...)}
	time.AfterFunc(latency, func() {
		f.mu.Lock()
		in := peer.packets.in
		f.mu.Unlock()
		select {
		case in <- p:
		default:
		}
	})
}

type memPacket struct {
	from netip.AddrPort
	b    []byte
}

type memPackets struct {
	h    *host
	in   chan memPacket
	done chan struct{}
	once sync.Once
}

func (p *memPackets) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case got := <-p.in:
		return copy(b, got.b), net.UDPAddrFromAddrPort(got.from), nil
	case <-p.done:
		return 0, nil, net.ErrClosed
	}
}

func (p *memPackets) WriteTo(b []byte, to net.Addr) (int, error) {
	p.h.f.send(p.h.addrPort(), netip.MustParseAddrPort(to.String()), b)
	return len(b), nil
}

func (p *memPackets) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *memPackets) LocalAddr() net.Addr              { return net.UDPAddrFromAddrPort(p.h.addrPort()) }
func (p *memPackets) SetDeadline(time.Time) error      { return nil }
func (p *memPackets) SetReadDeadline(time.Time) error  { return nil }
func (p *memPackets) SetWriteDeadline(time.Time) error { return nil }

type memListener struct {
	addr  netip.AddrPort
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *memListener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.addr) }

// memConn swallows what is written while its ends are cut from each other.
type memConn struct {
	net.Conn
	f             *fabric
	local, remote netip.AddrPort
}

func (c *memConn) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(c.local) }
func (c *memConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }
func (c *memConn) Write(b []byte) (int, error) {
	if c.f.isCut(c.local.Addr(), c.remote.Addr()) {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// loopback is the real sockets of one address 127.x.y.z.
type loopback struct{ addr netip.Addr }

// newLoopback gives each process its own corner of 127/8, so that tests at the same time do not meet.
func newLoopback(n int) loopback {
	pid := os.Getpid()
	return loopback{netip.AddrFrom4([4]byte{127, byte(64 + pid%128), byte(pid / 128), byte(n)})}
}

func (l loopback) Addr() netip.Addr { return l.addr }

func (l loopback) addrPort() netip.AddrPort { return netip.AddrPortFrom(l.addr, 7946) }

func (l loopback) ListenStream(port int) (net.Listener, error) {
	return net.ListenTCP("tcp4", &net.TCPAddr{IP: l.addr.AsSlice(), Port: port})
}

func (l loopback) ListenPacket(port int) (net.PacketConn, error) {
	return net.ListenUDP("udp4", &net.UDPAddr{IP: l.addr.AsSlice(), Port: port})
}

func (l loopback) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: l.addr.AsSlice()}}
	return d.DialContext(ctx, network, addr)
}

// needLoopback skips where 127/8 is not all ours, as on a Mac.
func needLoopback(t *testing.T) {
	l, err := newLoopback(200).ListenStream(0)
	if err != nil {
		t.Skipf("this system has no loopback address but 127.0.0.1: %v", err)
	}
	l.Close()
}
