package tsnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"tailscale.com/client/local"
	"tailscale.com/ipn/ipnstate"
)

// listen asks for the port without an address: that is this device's own v4 and v6 addresses and no other, and it stays
// right should the tailnet give the device new ones.
func (t *tailnet) listen(port int) (net.Listener, error) {
	d := t.device.Load()
	if d == nil {
		return nil, ErrNotUp
	}
	l, err := d.server.Listen("tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	addr := net.TCPAddr{Port: port}
	if own := t.current().addrs; len(own) > 0 {
		addr.IP = own[0].AsSlice()
	}
	if _, text, err := net.SplitHostPort(l.Addr().String()); err == nil && port == 0 {
		addr.Port, _ = strconv.Atoi(text)
	}
	return &tailnetListener{Listener: l, addr: &addr}, nil
}

// tailnetListener has an address that others can use: the library's own says ":8086".
type tailnetListener struct {
	net.Listener
	addr *net.TCPAddr
}

func (l *tailnetListener) Addr() net.Addr { return l.addr }

// listenPacket opens a socket per own address: for packets the library knows no wildcard.
func (t *tailnet) listenPacket(port int) (net.PacketConn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialPatience)
	defer cancel()
	d, s, err := t.status(ctx)
	if err != nil {
		return nil, err
	}
	var conns []net.PacketConn
	for _, addr := range v4First(s.TailscaleIPs) {
		network := "udp4"
		if addr.Is6() {
			network = "udp6"
		}
		c, err := d.server.ListenPacket(network, netip.AddrPortFrom(addr, uint16(port)).String())
		if err != nil {
			for _, open := range conns {
				open.Close()
			}
			return nil, err
		}
		conns = append(conns, c)
		if port == 0 {
			port = portOf(c.LocalAddr())
		}
	}
	if len(conns) == 0 {
		return nil, ErrNotUp
	}
	return joinPackets(conns), nil
}

func portOf(addr net.Addr) int {
	if udp, ok := addr.(*net.UDPAddr); ok {
		return udp.Port
	}
	return 0
}

// dial lets only addresses of peers, and this device's own, pass to the library, which hands all others to the host's
// network: a gossiped 127.0.0.1 would reach whatever listens there.
func (t *tailnet) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	d, err := t.deviceFor(ctx, to.Addr())
	if err != nil {
		return nil, err
	}
	c, err := d.dials.again(ctx, func(ctx context.Context) (net.Conn, error) { return d.server.Dial(ctx, "tcp", to.String()) })
	if err != nil {
		return nil, err
	}
	if _, ofHost := c.(*net.TCPConn); ofHost { // the peer left between the two lines above
		c.Close()
		return nil, ErrNotPeer
	}
	return c, nil
}

// deviceFor returns the device if addr is one it may dial. A peer that is not in the last view may have just come: the
// device itself is asked.
func (t *tailnet) deviceFor(ctx context.Context, addr netip.Addr) (*device, error) {
	d, v := t.device.Load(), t.current()
	if d != nil && v.status.State == StateUp && v.known[addr] {
		return d, nil
	}
	d, s, err := t.status(ctx)
	if err != nil {
		return nil, err
	}
	if !hasAddr(s, addr) {
		return nil, ErrNotPeer
	}
	return d, nil
}

// hasAddr reports whether the address is a peer's or this device's own. Subnets that a peer routes are not.
func hasAddr(s *ipnstate.Status, addr netip.Addr) bool {
	for _, own := range s.TailscaleIPs {
		if own == addr {
			return true
		}
	}
	for _, p := range s.Peer {
		for _, a := range p.TailscaleIPs {
			if a == addr {
				return true
			}
		}
	}
	return false
}

func (t *tailnet) whoIs(ctx context.Context, remote netip.AddrPort) (Caller, error) {
	d := t.device.Load()
	if d == nil {
		return Caller{}, ErrNotUp
	}
	who, err := d.client.WhoIs(ctx, remote.String())
	if errors.Is(err, local.ErrPeerNotFound) {
		return Caller{}, ErrUnknownCaller
	}
	if err != nil {
		return Caller{}, fmt.Errorf("reading the device's peers: %w", err)
	}
	if who.Node == nil || who.UserProfile == nil {
		return Caller{}, ErrUnknownCaller
	}
	return Caller{
		Node:     firstLabel(who.Node.Name),
		StableID: string(who.Node.StableID),
		User:     who.UserProfile.DisplayName,
		Login:    who.UserProfile.LoginName,
		Tags:     who.Node.Tags,
	}, nil
}
