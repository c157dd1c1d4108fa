package serf_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"viiwork/serf"
)

func TestTagsFitUpToTheLastByte(t *testing.T) {
	bubble(t, func(t *testing.T) {
		// A bubble begins in 2000, when the time of a start had a digit less.
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
		f := newFabric()
		cfg := config(1, f.host(1))
		longest := 0
		for n := range 600 {
			cfg.Version = strings.Repeat("v", n+1)
			if _, err := serf.New(cfg); err == nil {
				longest = n + 1
			} else if !strings.Contains(err.Error(), `the tag "version"`) || !strings.Contains(err.Error(), "512") {
				t.Fatalf("a version of %d bytes: %v", n+1, err)
			}
		}
		if longest < 380 {
			t.Errorf("the longest version has %d bytes", longest)
		}
		cfg.Version = strings.Repeat("v", longest)
		if got := serf.TagSize(cfg); got != 512 {
			t.Errorf("the longest tags have %d bytes", got)
		}
		full, other := start(t, cfg), start(t, config(2, f.host(2)))
		other.join(full)
		waitAll(t, []*node{full, other}, time.Minute)
		if other.member(full.id).Version != cfg.Version {
			t.Error("the version did not arrive")
		}
	})
}

// TestTagSizeIsTheLibrarys holds our arithmetic against what the library really sends.
func TestTagSizeIsTheLibrarys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFabric()
		for i, n := range []int{1, 31, 32, 33, 255, 256, 300} {
			cfg := config(i+1, f.host(i+1))
			cfg.Version = strings.Repeat("v", n)
			node := start(t, cfg)
			if ours, real := serf.TagSize(cfg), serf.MetaSize(node.Cluster); ours != real {
				t.Errorf("a version of %d bytes: %d by our count, %d sent", n, ours, real)
			}
		}
	})
}

func TestNewReportsEveryFault(t *testing.T) {
	_, err := serf.New(serf.Config{
		ID: "a b", Name: "Attic", Version: "\n", Port: 70000, Key: make([]byte, 16), Prev: make([]byte, 8), Enforce: "soon",
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, words := range []string{
		"the id", "node.name", "API address", "the version", "wire version 0", "mesh.bind_port", "16 bytes", "8 bytes",
		"mesh.secret_enforce", "no network",
	} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%q is not in: %v", words, err)
		}
	}
	cfg := config(1, newFabric().host(1))
	cfg.Prev = key(1)
	if _, err := serf.New(cfg); err == nil || !strings.Contains(err.Error(), "previous key") {
		t.Errorf("a previous key alone: %v", err)
	}
}

func TestRunRefusesWhatItCannotServe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFabric()
		cfg := config(1, f.host(1))
		cfg.API = netip.MustParseAddrPort("10.9.9.9:8086")
		c, err := serf.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "10.9.9.9") {
			t.Errorf("an API elsewhere: %v", err)
		}
		if _, err := c.Join(context.Background(), nil); err == nil {
			t.Error("joined after Run")
		}
		if err := c.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "already") {
			t.Errorf("a second Run: %v", err)
		}
	})
}

func TestJoinSaysWhyNot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFabric()
		nodes := starts(t, f, 2)
		third := start(t, config(3, f.host(3)))
		met, err := third.Join(context.Background(), []netip.AddrPort{
			netip.MustParseAddrPort("10.0.0.99:7946"), nodes[0].net.addrPort(), third.net.addrPort(), netip.MustParseAddrPort("224.0.0.1:7946"),
		})
		if met != 1 || err == nil {
			t.Fatalf("%d met, %v", met, err)
		}
		for _, words := range []string{"joining 10.0.0.99:7946: connection refused", "joining 224.0.0.1:7946: not an address"} {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("%q is not in %v", words, err)
			}
		}
		waitAll(t, append(nodes, third), time.Minute)

		f.unplug(nodes[1].net.(*host))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begin := time.Now()
		dead := nodes[1].net.addrPort()
		if met, err := third.Join(ctx, []netip.AddrPort{dead, dead, dead}); met != 0 || err == nil || time.Since(begin) > 11*time.Second {
			t.Errorf("joining the dead: %d met after %s, %v", met, time.Since(begin), err)
		}
		waiting, cancel2 := context.WithTimeout(context.Background(), time.Second)
		defer cancel2()
		idle, err := serf.New(config(4, f.host(4)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := idle.Join(waiting, nil); err == nil || !strings.Contains(fmt.Sprint(err), "start") {
			t.Errorf("joining before Run: %v", err)
		}
	})
}
