package tsnode

import (
	"net"
	"net/netip"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

const mdnsPort = 5353

var (
	mdnsGroup4 = net.IPv4(224, 0, 0, 251)
	mdnsGroup6 = net.ParseIP("ff02::fb")
)

// heardFrom is a packet with where it came from.
type heardFrom struct {
	packet []byte
	from   netip.Addr
	iface  int // index
}

// mdnsSocket is one family's socket on the mDNS port, which it shares with other responders of this machine. Go opens
// a socket for a multicast address so that it can be shared, and bound to all interfaces.
type mdnsSocket struct {
	four *ipv4.PacketConn // one of these is nil
	six  *ipv6.PacketConn
}

func openMDNS4() (*mdnsSocket, error) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: mdnsGroup4, Port: mdnsPort})
	if err != nil {
		return nil, err
	}
	four := ipv4.NewPacketConn(c)
	_ = four.SetControlMessage(ipv4.FlagInterface, true)
	_ = four.SetMulticastTTL(255)
	_ = four.SetMulticastLoopback(true) // other nodes of this machine hear us so
	return &mdnsSocket{four: four}, nil
}

func openMDNS6() (*mdnsSocket, error) {
	c, err := net.ListenUDP("udp6", &net.UDPAddr{IP: mdnsGroup6, Port: mdnsPort})
	if err != nil {
		return nil, err
	}
	six := ipv6.NewPacketConn(c)
	_ = six.SetControlMessage(ipv6.FlagInterface, true)
	_ = six.SetMulticastHopLimit(255)
	_ = six.SetMulticastLoopback(true)
	return &mdnsSocket{six: six}, nil
}

// join starts to receive on iface. Joining twice is an error that means nothing.
func (s *mdnsSocket) join(iface net.Interface) {
	if s.four != nil {
		_ = s.four.JoinGroup(&iface, &net.UDPAddr{IP: mdnsGroup4})
		return
	}
	_ = s.six.JoinGroup(&iface, &net.UDPAddr{IP: mdnsGroup6})
}

// send multicasts on one interface. A lost packet is sent again by the next round.
func (s *mdnsSocket) send(packet []byte, iface int) {
	if s.four != nil {
		_, _ = s.four.WriteTo(packet, &ipv4.ControlMessage{IfIndex: iface}, &net.UDPAddr{IP: mdnsGroup4, Port: mdnsPort})
		return
	}
	_, _ = s.six.WriteTo(packet, &ipv6.ControlMessage{IfIndex: iface}, &net.UDPAddr{IP: mdnsGroup6, Port: mdnsPort})
}

// receive waits for the next packet. An error means that the socket is closed.
func (s *mdnsSocket) receive(buf []byte) (heardFrom, error) {
	var n, iface int
	var from net.Addr
	var err error
	if s.four != nil {
		var control *ipv4.ControlMessage
		if n, control, from, err = s.four.ReadFrom(buf); control != nil {
			iface = control.IfIndex
		}
	} else {
		var control *ipv6.ControlMessage
		if n, control, from, err = s.six.ReadFrom(buf); control != nil {
			iface = control.IfIndex
		}
	}
	if err != nil {
		return heardFrom{}, err
	}
	h := heardFrom{packet: append([]byte(nil), buf[:n]...), iface: iface}
	if udp, ok := from.(*net.UDPAddr); ok {
		h.from = udp.AddrPort().Addr().Unmap()
	}
	return h, nil
}

func (s *mdnsSocket) close() {
	if s.four != nil {
		s.four.Close()
		return
	}
	s.six.Close()
}
