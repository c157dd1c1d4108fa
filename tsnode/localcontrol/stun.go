package localcontrol

import (
	"errors"
	"net"
	"net/netip"
	"sync"

	"tailscale.com/net/stun"
)

// stunServer tells whoever asks which address the question came from.
type stunServer struct {
	conn    *net.UDPConn
	serving sync.WaitGroup
}

func startSTUN() (*stunServer, error) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	s := &stunServer{conn: c}
	s.serving.Go(s.serve)
	return s, nil
}

func (s *stunServer) port() int { return s.conn.LocalAddr().(*net.UDPAddr).Port }

func (s *stunServer) serve() {
	buf := make([]byte, 2048)
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || !stun.Is(buf[:n]) {
			continue
		}
		id, err := stun.ParseBindingRequest(buf[:n])
		if err != nil {
			continue
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		_, _ = s.conn.WriteToUDPAddrPort(stun.Response(id, from), from)
	}
}

func (s *stunServer) close() {
	s.conn.Close()
	s.serving.Wait()
}
