package serf

import (
	"context"
	"net"
	"net/netip"
)

// Network is what gossip travels over.
type Network interface {
	// Addr is the address the other nodes reach this one at. It is asked for when Run starts and must not change.
	Addr() netip.Addr
	// ListenStream listens on a TCP port of Addr.
	ListenStream(port int) (net.Listener, error)
	// ListenPacket listens on a UDP port of Addr.
	ListenPacket(port int) (net.PacketConn, error)
	// DialContext opens a TCP connection to an IP address and port. It may refuse addresses of no peer.
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
}

// usable reports whether gossip may be sent to an address: peers choose some of them, and a broadcast or multicast
// address would make this node an amplifier.
func usable(a netip.AddrPort) bool {
	ip := a.Addr()
	return a.Port() != 0 && ip.IsValid() && !ip.IsUnspecified() && !ip.IsMulticast() && ip.Zone() == "" &&
		ip != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}
