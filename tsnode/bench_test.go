package tsnode_test

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"

	"viiwork/tsnode"
	"viiwork/tsnode/localcontrol"
)

// BenchmarkWhoIs is what naming the caller adds to a request.
func BenchmarkWhoIs(b *testing.B) {
	n, peer := pair(b)
	remote := netip.AddrPortFrom(peer.Addr(), 1234)
	for b.Loop() {
		if _, err := n.WhoIs(context.Background(), remote); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDial is a new connection to a known peer, with one byte there and back.
func BenchmarkDial(b *testing.B) {
	n, peer := pair(b)
	l, err := peer.ListenStream(8086)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
	to := netip.AddrPortFrom(peer.Addr(), 8086).String()
	for b.Loop() {
		var c net.Conn
		if c, err = n.DialContext(context.Background(), "tcp", to); err != nil {
			b.Fatal(err)
		}
		c.Write([]byte("x"))
		c.Read(make([]byte, 1))
		c.Close()
	}
}

// pair is two devices that know each other.
func pair(b *testing.B) (n, peer *tsnode.Node) {
	b.Helper()
	c, err := localcontrol.Start(localcontrol.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	nodes := make([]*tsnode.Node, 2)
	for i, name := range []string{"a", "b"} {
		nodes[i], err = tsnode.New(tsnode.Config{
			Network: tsnode.Tailnet, Name: name, StateDir: b.TempDir(), ControlURL: c.URL(), Log: quiet(),
		})
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); nodes[i].Run(ctx) }()
		b.Cleanup(func() { cancel(); <-ended })
		<-nodes[i].Ready()
	}
	for len(nodes[0].Peers()) == 0 || len(nodes[1].Peers()) == 0 {
		select {
		case <-nodes[0].Changes():
		case <-nodes[1].Changes():
		}
	}
	return nodes[0], nodes[1]
}
