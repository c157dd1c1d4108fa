package serf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// maxPacket is the largest packet that is looked at. Ours are under packetSize, answers to queries a little over.
const maxPacket = 4096

// transport carries the library's packets and streams over a Network. Peers are addressed by IP address only: no name
// that gossip brings is ever looked up.
type transport struct {
	addr     netip.AddrPort
	log      *slog.Logger
	listener net.Listener
	packets  net.PacketConn
	packetCh chan *memberlist.Packet
	streamCh chan net.Conn
	dial     func(addr string, timeout time.Duration) (net.Conn, error)
	done     chan struct{} // closed by Shutdown
	cancel   context.CancelFunc
	once     sync.Once
	wg       sync.WaitGroup
	streams  *streams
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

// listen opens both ports and starts to hear.
func (c *Cluster) listen(ctx context.Context) (*transport, error) {
	addr := c.own
	if api := c.cfg.API.Addr(); api != addr.Addr() {
		return nil, fmt.Errorf("listening for gossip at %s: the API is at %s, and both must be at one address",
			addr.Addr(), api)
	}
	l, err := c.cfg.Network.ListenStream(c.cfg.Port)
	if err != nil {
		return nil, fmt.Errorf("listening for gossip at %s, tcp: %w: set mesh.bind_port to a free one", addr, err)
	}
	p, err := c.cfg.Network.ListenPacket(c.cfg.Port)
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("listening for gossip at %s, udp: %w: set mesh.bind_port to a free one", addr, err)
	}
	// Dials end with the transport, not with ctx: taking leave comes after ctx.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	network := c.cfg.Network
	t := &transport{
		addr: addr, log: c.log, listener: l, packets: p,
		packetCh: make(chan *memberlist.Packet), streamCh: make(chan net.Conn),
		dial: func(addr string, timeout time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(life, timeout)
			defer cancel()
			return network.DialContext(ctx, "tcp", addr)
		},
		done: make(chan struct{}), cancel: cancel, streams: newStreams(),
	}
	t.wg.Go(t.accept)
	t.wg.Go(t.receive)
	return t, nil
}

// Shutdown closes all sockets and waits for the goroutines.
func (t *transport) Shutdown() error {
	t.once.Do(func() {
		close(t.done)
		t.cancel()
		t.listener.Close()
		t.packets.Close()
		t.streams.closeAll()
	})
	t.wg.Wait()
	return nil
}

func (t *transport) accept() {
	t.keepOn("accepting gossip", func() error {
		conn, err := t.listener.Accept()
		if err != nil {
			return err
		}
		s := t.streams.admit(conn)
		if s == nil {
			conn.Close()
			return nil
		}
		select {
		case t.streamCh <- s:
		case <-t.done:
			s.Close()
		}
		return nil
	})
}

func (t *transport) receive() {
	buf := make([]byte, maxPacket+1)
	t.keepOn("receiving gossip", func() error {
		n, from, err := t.packets.ReadFrom(buf)
		if err != nil {
			return err
		}
		if n == 0 || n > maxPacket {
			return nil
		}
		p := &memberlist.Packet{Buf: append([]byte(nil), buf[:n]...), From: from, Timestamp: time.Now()}
		select {
		case t.packetCh <- p:
		case <-t.done:
		}
		return nil
	})
}

// keepOn repeats act until the transport ends, slower and slower while it fails: a network that is away for a while
// comes back.
func (t *transport) keepOn(what string, act func() error) {
	const least, most = 5 * time.Millisecond, time.Second
	wait := least
	for {
		err := act()
		select {
		case <-t.done:
			return
		default:
		}
		if err == nil {
			wait = least
			continue
		}
		if wait == most {
			t.log.Debug(what, "error", err)
		}
		select {
		case <-t.done:
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, most)
	}
}

// FinalAdvertiseAddr says where the others reach this node.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return net.IP(t.addr.Addr().AsSlice()), int(t.addr.Port()), nil
}

// WriteTo sends a packet.
func (t *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	return t.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// WriteToAddress sends a packet. Its errors are net.OpErrors, since only those count as a failed probe.
func (t *transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	to, err := netip.ParseAddrPort(a.Addr)
	if err != nil || !usable(to) {
		return time.Time{}, &net.OpError{Op: "write", Net: "udp", Err: errors.New("not an address to send gossip to")}
	}
	_, err = t.packets.WriteTo(b, net.UDPAddrFromAddrPort(to))
	sent := time.Now()
	if _, ok := err.(*net.OpError); err != nil && !ok {
		err = &net.OpError{Op: "write", Net: "udp", Addr: net.UDPAddrFromAddrPort(to), Err: err}
	}
	return sent, err
}

// DialTimeout opens a stream.
func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a stream.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	to, err := netip.ParseAddrPort(a.Addr)
	if err != nil || !usable(to) {
		return nil, errors.New("not an address to gossip with")
	}
	conn, err := t.dial(a.Addr, timeout)
	if err != nil {
		return nil, err
	}
	return t.streams.dialled(conn), nil
}

// PacketCh brings the packets of others.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packetCh }

// StreamCh brings the streams that others opened.
func (t *transport) StreamCh() <-chan net.Conn { return t.streamCh }
