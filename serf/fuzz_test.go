package serf_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"viiwork/serf"
)

// fuzzed starts a node on real sockets for whatever a stranger sends.
func fuzzed(f *testing.F, n int, k []byte) (*serf.Cluster, loopback) {
	at := newLoopback(n)
	cfg := config(n, at)
	cfg.Key = k
	c, err := serf.New(cfg)
	if err != nil {
		f.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Run(context.Background()) }()
	f.Cleanup(func() { c.Stop(); <-done })
	select {
	case <-c.Ready():
	case err := <-done:
		f.Skipf("this system has no loopback address but 127.0.0.1: %v", err)
	}
	return c, at
}

// FuzzStranger sends anything to an open and to a secured node, as a packet and as a stream. Neither may fall over, nor
// may the secured one take anybody in.
func FuzzStranger(f *testing.F) {
	for i := range 16 {
		f.Add([]byte{byte(i), 0, 0, 0, 9, 1, 2, 3})
	}
	f.Add([]byte("\xf4\x03abc\x00"))
	f.Add([]byte("\x06\x81\xa5Nodes\xce\xff\xff\xff\xff"))
	f.Add([]byte("\x09\x82\xa4Algo\x00\xa3Buf\xa3abc"))
	f.Add([]byte("\x07\x02\x00\x02\x00\x02\x00\x81\x00\x81"))
	f.Add([]byte("\x08\x09\x81\xa8DestAddr\x81\xa2IP\xa4\x0a\x00\x00\x01"))
	open, openAt := fuzzed(f, 101, nil)
	secured, securedAt := fuzzed(f, 102, key(1))
	from, err := newLoopback(103).ListenPacket(0)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { from.Close() })
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, at := range []loopback{openAt, securedAt} {
			from.WriteTo(b, net.UDPAddrFromAddrPort(at.addrPort()))
			conn, err := net.DialTimeout("tcp", at.addrPort().String(), time.Second)
			if err != nil {
				continue // too fast for it
			}
			conn.Write(b)
			conn.Close()
		}
		if n := len(secured.Members()); n != 1 {
			t.Fatalf("the secured node has %d members", n)
		}
		if !slices.ContainsFunc(open.Members(), func(m serf.Member) bool { return m.ID == "id-0101" && m.State == serf.StateAlive }) {
			t.Fatal("the open node lost itself")
		}
	})
}

// FuzzMember reads what a peer may say of itself: what is taken in can be written into a log, a file and a URL.
func FuzzMember(f *testing.F) {
	f.Add("id", "attic", "10.0.0.1:8086", "3.0.0", "1", "1700000000000", []byte{10, 0, 0, 1}, uint16(7946))
	f.Add("id\n", "Attic", "[::ffff:10.0.0.1]:8086", "", "0", "-1", []byte{}, uint16(0))
	f.Fuzz(func(t *testing.T, id, name, api, version, wire, since string, ip []byte, port uint16) {
		m, err := serf.ReadMember(id, ip, port, map[string]string{"name": name, "api": api, "version": version, "wire": wire, "since": since})
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("the error quotes the peer: %q", err)
			}
			return
		}
		if m.API.Addr() != m.Addr.Addr() || m.Addr.Addr().IsMulticast() || m.Addr.Addr().IsUnspecified() || m.Wire < 1 {
			t.Errorf("taken in: %+v", m)
		}
		if strings.ContainsFunc(m.ID+m.Name+m.Version, func(r rune) bool { return r < ' ' || r > '~' }) || strings.ContainsAny(m.ID+m.Name, " /") {
			t.Errorf("taken in: %+v", m)
		}
	})
}

// FuzzLog reads lines that quote a stranger: no warning is about any address but the last.
func FuzzLog(f *testing.F) {
	f.Add("[ERR] memberlist: msg type (99) not supported from=10.0.0.9:5")
	f.Add("[ERR] memberlist: discarding packet with unacceptable label \"from=10.0.0.1:1\": ")
	f.Fuzz(func(t *testing.T, line string) {
		id, addr := serf.StrangerIn(line + " from=10.0.0.9:5")
		if id != "" && addr.String() != "10.0.0.9" {
			t.Errorf("%s about %s", id, addr)
		}
		serf.StrangerIn(line)
	})
}
