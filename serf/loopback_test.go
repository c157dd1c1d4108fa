package serf_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	hserf "github.com/hashicorp/serf/serf"
	"go.uber.org/goleak"

	"viiwork/serf"
)

// patience on real sockets, where a machine may be busy with something else.
const patience = 90 * time.Second

// noLeaks fails when a goroutine that began during the test outlives it. A probe of the library may need a while.
func noLeaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		wait(t, patience, "no goroutine is left", func() bool { return goleak.Find(before) == nil })
	})
}

func TestRealSockets(t *testing.T) {
	needLoopback(t)
	noLeaks(t)
	dir := t.TempDir()
	var nodes []*node
	for i := 1; i <= 3; i++ {
		cfg := config(i, newLoopback(i))
		cfg.Key = key(1)
		if i == 3 {
			cfg.StateDir = dir
		}
		nodes = append(nodes, start(t, cfg))
		if i > 1 {
			nodes[i-1].join(nodes[0])
		}
	}
	t.Logf("all see all after %s", waitAll(t, nodes, patience))

	events, cancel := nodes[2].Subscribe()
	defer cancel()
	begin := time.Now()
	if err := nodes[0].Broadcast(context.Background(), "digest", []byte("abc")); err != nil {
		t.Fatal(err)
	}
	for e := range events {
		if e.Kind == serf.KindMessage && string(e.Payload) == "abc" {
			break
		}
	}
	t.Logf("a message arrived after %s", time.Since(begin))

	time.Sleep(2 * time.Second) // until the members are in node 3's file
	nodes[2].kill()
	t.Logf("a kill was seen after %s", wait(t, patience, "a kill is seen", func() bool {
		return nodes[0].sees(nodes[2].id) == serf.StateFailed && nodes[1].sees(nodes[2].id) == serf.StateFailed
	}))
	cfg := config(3, newLoopback(3))
	cfg.Key, cfg.StateDir = key(1), dir
	nodes[2] = start(t, cfg)
	t.Logf("it found the mesh again after %s", waitAll(t, nodes, patience))

	go nodes[2].leave()
	t.Logf("a leave was seen after %s", wait(t, patience, "a leave is seen", func() bool { return nodes[0].sees(nodes[2].id) == serf.StateLeft }))
	<-nodes[2].done

	for i, k := range [][]byte{key(2), nil} {
		cfg := config(9+i, newLoopback(9+i))
		cfg.Key = k
		stranger := start(t, cfg)
		met, err := stranger.Join(context.Background(), []netip.AddrPort{nodes[0].net.addrPort()})
		if met != 0 || err == nil || !strings.Contains(err.Error(), "secret") {
			t.Errorf("stranger %d: %d met, %v", i, met, err)
		}
	}
	for _, id := range []string{"gossip-secret", "gossip-no-secret"} {
		if _, ok := nodes[0].warned(id); !ok {
			t.Errorf("no %s among %+v", id, nodes[0].Warnings())
		}
	}
	garbage(t, newLoopback(20), nodes[0].net.addrPort())
	wait(t, patience, "garbage is named", func() bool { _, ok := nodes[0].warned("gossip-garbage"); return ok })
	waitAll(t, nodes[:2], patience) // and nobody else; on a busy machine one may be taken for dead for a moment
}

// garbage sends some of it by both ways.
func garbage(t *testing.T, from loopback, to netip.AddrPort) {
	p, err := from.ListenPacket(0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, b := range []string{"", "x", "GET / HTTP/1.1\r\n\r\n", strings.Repeat("\xff", 9000)} {
		p.WriteTo([]byte(b), net.UDPAddrFromAddrPort(to))
	}
	conn, err := from.DialContext(context.Background(), "tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET / HTTP/1.1\r\n\r\n")
}

func TestTakenPortIsNamed(t *testing.T) {
	needLoopback(t)
	noLeaks(t)
	for _, udp := range []bool{false, true} {
		network := newLoopback(30)
		var taken io.Closer
		var err error
		if udp {
			taken, err = network.ListenPacket(7946)
		} else {
			taken, err = network.ListenStream(7946)
		}
		if err != nil {
			t.Fatal(err)
		}
		c, err := serf.New(config(1, network))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "mesh.bind_port") {
			t.Errorf("udp %t: %v", udp, err)
		}
		taken.Close()
	}
}

// TestOtherSerfClustersAreRefused lets nodes that are none of ours join over the library's own transport.
func TestOtherSerfClustersAreRefused(t *testing.T) {
	needLoopback(t)
	own := start(t, config(1, newLoopback(41)))
	for i, c := range []struct {
		name  string
		tags  map[string]string
		words string
	}{
		{"consul-1", map[string]string{"role": "consul"}, "no name"},
		{"id-evil", map[string]string{"name": "evil", "api": "169.254.169.254:80", "version": "1", "wire": "1", "since": "1"}, "169.254.169.254"},
		{"id evil", map[string]string{"name": "evil"}, "its id"},
	} {
		at := newLoopback(42 + i)
		conf := hserf.DefaultConfig()
		conf.MemberlistConfig = memberlist.DefaultLANConfig()
		conf.MemberlistConfig.BindAddr, conf.MemberlistConfig.AdvertiseAddr = at.addr.String(), at.addr.String()
		conf.NodeName, conf.Tags, conf.ProtocolVersion = c.name, c.tags, 5
		conf.LogOutput = io.Discard
		conf.MemberlistConfig.Logger = log.New(io.Discard, "", 0)
		other, err := hserf.Create(conf)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Shutdown()
		other.Join([]string{own.net.addrPort().String()}, true)
		wait(t, patience, c.name+" is named", func() bool {
			for _, w := range own.Warnings() {
				if w.ID == "gossip-member" && w.Addr == at.addr && strings.Contains(w.Text, c.words) {
					return true
				}
			}
			return false
		})
	}
	if ids := own.alive(); len(ids) != 1 {
		t.Errorf("taken in: %v", ids)
	}
}
