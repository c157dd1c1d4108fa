package serf

import (
	"errors"
	"net"
	"net/netip"
	"sync"
)

// Bounds of streams. A stream holds the whole state of a peer, about 400 bytes a member and 64 KiB of events; the
// library would buffer 20 MiB of it before it looks at the key.
const (
	maxStream         = 2 << 20 // bytes read from one
	maxStreams        = 32      // opened by others, at one time
	maxStreamsOfOneIP = 8
)

// streams knows all open ones.
type streams struct {
	mu      sync.Mutex // guards all below
	open    map[*stream]struct{}
	inbound int
	from    map[netip.Addr]int // inbound ones by address
	closed  bool
}

func newStreams() *streams {
	return &streams{open: map[*stream]struct{}{}, from: map[netip.Addr]int{}}
}

// stream is a connection that is read up to a limit.
type stream struct {
	net.Conn
	all     *streams
	left    int
	inbound bool
	peer    netip.Addr // of an inbound one
}

// admit returns nil when there are too many.
func (all *streams) admit(conn net.Conn) *stream {
	peer := addrOf(conn.RemoteAddr())
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed || all.inbound >= maxStreams || all.from[peer] >= maxStreamsOfOneIP {
		return nil
	}
	all.inbound++
	all.from[peer]++
	s := &stream{Conn: conn, all: all, left: maxStream, inbound: true, peer: peer}
	all.open[s] = struct{}{}
	return s
}

func (all *streams) dialled(conn net.Conn) *stream {
	s := &stream{Conn: conn, all: all, left: maxStream}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed {
		conn.Close()
		return s
	}
	all.open[s] = struct{}{}
	return s
}

func (all *streams) closeAll() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.closed = true
	for s := range all.open {
		s.Conn.Close()
	}
}

func (s *stream) Read(b []byte) (int, error) {
	if s.left <= 0 {
		return 0, errors.New("more gossip in one stream than a mesh can have")
	}
	n, err := s.Conn.Read(b[:min(len(b), s.left)])
	s.left -= n
	return n, err
}

func (s *stream) Close() error {
	s.all.mu.Lock()
	if _, ok := s.all.open[s]; ok {
		delete(s.all.open, s)
		if s.inbound {
			s.all.inbound--
			if s.all.from[s.peer]--; s.all.from[s.peer] == 0 {
				delete(s.all.from, s.peer)
			}
		}
	}
	s.all.mu.Unlock()
	return s.Conn.Close()
}

// addrOf returns the IP address of a socket's address, or the zero one.
func addrOf(a net.Addr) netip.Addr {
	if a == nil {
		return netip.Addr{}
	}
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}
