package serf_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"viiwork/serf"
)

// gaveUp waits for Run to return, with an error of this kind and these words.
func gaveUp(t *testing.T, n *node, kind error, words ...string) {
	t.Helper()
	wait(t, time.Minute, n.id+" gives up", func() bool {
		select {
		case <-n.done:
			return true
		default:
			return false
		}
	})
	if !errors.Is(n.err, kind) {
		t.Fatalf("%s returned %v, want %v", n.id, n.err, kind)
	}
	for _, w := range words {
		if !strings.Contains(n.err.Error(), w) {
			t.Errorf("the error %q does not name %q", n.err, w)
		}
	}
}

func stays(t *testing.T, n *node) {
	t.Helper()
	select {
	case <-n.done:
		t.Fatalf("%s gave up: %v", n.id, n.err)
	default:
	}
}

func TestNewcomerWithATakenNameGivesUp(t *testing.T) {
	for name, size := range map[string]int{"of one that was alone": 1, "of one of three": 3} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFabric()
				nodes := starts(t, f, size)
				time.Sleep(time.Minute)
				holder := nodes[size-1]
				cfg := config(9, f.host(9))
				cfg.ID, cfg.Name = "id-0000", holder.member(holder.id).Name // the smaller id does not help
				newcomer := start(t, cfg)
				newcomer.join(nodes[0])
				gaveUp(t, newcomer, serf.ErrNameTaken, holder.id, holder.net.Addr().String(), cfg.Name, "node.name")
				time.Sleep(time.Minute)
				for _, n := range nodes {
					stays(t, n)
				}
				waitAll(t, nodes, time.Second)
			})
		})
	}
}

func TestOfTwoStartedAtOnceWithOneNameOneStays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFabric()
		nodes := starts(t, f, 2)
		var twins []*node
		for i := range 2 {
			cfg := config(10+i, f.host(10+i))
			cfg.Name = "attic"
			twins = append(twins, start(t, cfg))
		}
		twins[0].join(nodes[0])
		twins[1].join(nodes[1])
		gaveUp(t, twins[1], serf.ErrNameTaken, twins[0].id)
		time.Sleep(time.Minute)
		stays(t, twins[0])
	})
}

func TestOldMembersWithOneNameBothStayAndWarn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFabric()
		left := func(a netip.Addr) bool { return a.As4()[3] <= 2 }
		f.setCut(func(a, b netip.Addr) bool { return left(a) != left(b) })
		var nodes []*node
		for i := 1; i <= 4; i++ {
			cfg := config(i, f.host(i))
			if i == 1 || i == 3 {
				cfg.Name = "attic"
			}
			nodes = append(nodes, start(t, cfg))
		}
		nodes[0].join(nodes[1])
		nodes[2].join(nodes[3])
		time.Sleep(time.Minute)
		f.setCut(nil)
		nodes[1].join(nodes[3])
		waitAll(t, nodes, time.Minute)
		time.Sleep(time.Minute)
		for a, b := range map[*node]*node{nodes[0]: nodes[2], nodes[2]: nodes[0]} {
			stays(t, a)
			w, ok := a.warned("name-clash")
			if !ok || w.Addr != b.net.Addr() || !strings.Contains(w.Text, b.id) || !strings.Contains(w.Text, "attic") || w.Fix == "" {
				t.Errorf("%s warns %+v", a.id, w)
			}
			if n := a.log.count("level=WARN", "name-clash"); n != 1 {
				t.Errorf("%s logged it %d times in a minute", a.id, n)
			}
		}
		nodes[2].leave()
		wait(t, time.Minute, "the warning ends with its cause", func() bool {
			_, ok := nodes[0].warned("name-clash")
			return !ok
		})
	})
}

func TestNodeIsNoRivalOfItsOwnGhost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFabric()
		nodes := starts(t, f, 3)
		time.Sleep(time.Minute)
		nodes[2].kill()
		cfg := config(3, f.host(3))
		cfg.ID = "id-new" // its state folder was lost
		reborn := start(t, cfg)
		reborn.join(nodes[0])
		if nodes[0].sees("id-0003") != serf.StateAlive {
			t.Fatal("the ghost is gone already: this test tests nothing")
		}
		time.Sleep(time.Minute)
		stays(t, reborn)
		waitAll(t, []*node{nodes[0], nodes[1], reborn}, time.Second)
	})
}

func TestCopiedStateFolderIsNamed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFabric()
		nodes := starts(t, f, 3)
		time.Sleep(time.Minute)
		cfg := config(2, f.host(50))
		cfg.Name = "copy"
		copied := start(t, cfg)
		copied.join(nodes[0])
		gaveUp(t, copied, serf.ErrIDTaken, "id-0002", nodes[1].net.Addr().String(), "node-2", "state_dir")
		time.Sleep(time.Minute)
		for _, n := range nodes {
			stays(t, n)
			if m := n.member("id-0002"); m.Addr != nodes[1].net.addrPort() || m.State != serf.StateAlive {
				t.Errorf("%s sees the original as %+v", n.id, m)
			}
		}
	})
}
