package serf_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/serf"
)

func TestMembersSeeEachOtherAndWhatEachSaysOfItself(t *testing.T) {
	for _, size := range []int{3, 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFabric()
				var nodes []*node
				for i := range size {
					cfg := config(i+1, f.host(i+1))
					cfg.Version = fmt.Sprintf("3.0.%d", i)
					nodes = append(nodes, start(t, cfg))
				}
				begin := time.Now()
				for _, n := range nodes[1:] {
					n.join(nodes[0])
				}
				waitAll(t, nodes, time.Minute)
				t.Logf("%d members know each other %s after the first join", size, time.Since(begin))
				for _, n := range nodes {
					for i := range size {
						m := n.member(nodes[i].id)
						want := serf.Member{
							ID: nodes[i].id, Name: fmt.Sprintf("node-%d", i+1), State: serf.StateAlive, Addr: nodes[i].net.addrPort(),
							API:     netip.AddrPortFrom(nodes[i].net.Addr(), 8086),
							Version: fmt.Sprintf("3.0.%d", i), Wire: 1, Since: m.Since,
						}
						if m != want || begin.Sub(m.Since).Abs() > time.Second {
							t.Fatalf("%s sees %+v, want %+v", n.id, m, want)
						}
					}
				}
			})
		})
	}
}

func TestMessageReachesEveryoneOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes := starts(t, newFabric(), 20)
		var heard []<-chan serf.Event
		for _, n := range nodes {
			events, cancel := n.Subscribe()
			defer cancel()
			heard = append(heard, events)
		}
		payload := strings.Repeat("x", serf.MaxMessage-len("digest"))
		if err := nodes[7].Broadcast(context.Background(), "digest", []byte(payload)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for i, events := range heard {
			var got []serf.Event
			for len(events) > 0 {
				got = append(got, <-events)
			}
			if len(got) != 1 || got[0].Kind != serf.KindMessage || got[0].Name != "digest" || string(got[0].Payload) != payload {
				t.Errorf("node %d heard %d events, want the one message", i, len(got))
			}
		}
		err := nodes[7].Broadcast(context.Background(), "digest", []byte(payload+"x"))
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint(serf.MaxMessage)) {
			t.Errorf("one byte more: %v, want an error with the limit", err)
		}
	})
}

func TestLaggingSubscriberIsToldWhatItMissed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := start(t, config(1, newFabric().host(1)))
		events, cancel := n.Subscribe()
		defer cancel()
		const sent = 300
		for i := range sent {
			if err := n.Broadcast(context.Background(), fmt.Sprint(i), nil); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		got := 0
		for len(events) > 0 {
			<-events
			got++
		}
		n.Broadcast(context.Background(), "last", nil)
		if e := <-events; e.Name != "last" || e.Missed != sent-got || e.Missed == 0 {
			t.Errorf("after %d of %d: %q with %d missed", got, sent, e.Name, e.Missed)
		}
		n.kill()
		if _, open := <-events; open {
			t.Error("the channel is open after Run")
		}
		if late, _ := n.Subscribe(); !closed(late) {
			t.Error("a subscription after Run waits for ever")
		}
	})
}

func closed(ch <-chan serf.Event) bool {
	select {
	case _, open := <-ch:
		return !open
	default:
		return false
	}
}

func TestLeaverIsSeenToLeave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes := starts(t, newFabric(), 5)
		events, cancel := nodes[0].Subscribe()
		defer cancel()
		begin := time.Now()
		go nodes[4].leave()
		wait(t, 2*time.Second, "all see it leave", func() bool {
			return !slices.ContainsFunc(nodes[:4], func(n *node) bool { return n.sees(nodes[4].id) != serf.StateLeft })
		})
		t.Logf("seen by all after %s", time.Since(begin))
		if e := <-events; e.Kind != serf.KindLeft || e.Member.ID != nodes[4].id {
			t.Errorf("the event is %s of %s", e.Kind, e.Member.ID)
		}
		<-nodes[4].done
		if nodes[4].err != nil {
			t.Errorf("Run returned %v", nodes[4].err)
		}
		if d := time.Since(begin); d > 5*time.Second {
			t.Errorf("taking leave took %s", d)
		}
		if left := nodes[4].Members(); len(left) != 0 {
			t.Errorf("after Run it still knows %d members", len(left))
		}
	})
}

func TestKilledNodeIsOutWithinTenSeconds(t *testing.T) {
	for _, size := range []int{2, 3, 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			var worst time.Duration
			for range 3 {
				bubble(t, func(t *testing.T) {
					f := newFabric()
					nodes := starts(t, f, size)
					dead := nodes[size-1]
					f.unplug(dead.net.(*host))
					events, cancel := nodes[0].Subscribe()
					defer cancel()
					rest := nodes[:size-1]
					worst = max(worst, wait(t, 10*time.Second, "it is out", func() bool {
						return !slices.ContainsFunc(rest, func(n *node) bool { return n.sees(dead.id) != serf.StateFailed })
					}))
					if e := <-events; e.Kind != serf.KindFailed || e.Member.ID != dead.id {
						t.Errorf("the event is %s of %s", e.Kind, e.Member.ID)
					}
					for _, n := range rest {
						if len(n.alive()) != size-1 {
							t.Errorf("%s sees %v alive", n.id, n.alive())
						}
					}
				})
			}
			t.Logf("among %d members: out everywhere after at most %s", size, worst)
		})
	}
}

func TestHalvesAreOneAgainAfterOneJoin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFabric()
		nodes := starts(t, f, 6)
		left := func(a netip.Addr) bool { return a.As4()[3] <= 3 }
		f.setCut(func(a, b netip.Addr) bool { return left(a) != left(b) })
		begin := time.Now()
		waitAll(t, nodes[:3], time.Minute)
		waitAll(t, nodes[3:], time.Minute)
		t.Logf("both halves know after %s", time.Since(begin))
		time.Sleep(5 * time.Minute)
		f.setCut(nil)
		begin = time.Now()
		nodes[0].join(nodes[5])
		waitAll(t, nodes, time.Minute)
		t.Logf("one again after %s", time.Since(begin))
	})
}

func TestHealedHalvesFindEachOtherWithoutHelp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFabric()
		nodes := starts(t, f, 4)
		left := func(a netip.Addr) bool { return a.As4()[3] <= 2 }
		f.setCut(func(a, b netip.Addr) bool { return left(a) != left(b) })
		waitAll(t, nodes[:2], time.Minute)
		waitAll(t, nodes[2:], time.Minute)
		f.setCut(nil)
		t.Logf("one again after %s", waitAll(t, nodes, 5*time.Minute))
	})
}

func TestRestartFindsTheMeshAgain(t *testing.T) {
	for name, end := range map[string]func(*node){"killed": (*node).kill, "left": func(n *node) { n.leave() }} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			bubble(t, func(t *testing.T) {
				f := newFabric()
				cfg := config(9, f.host(9))
				cfg.StateDir = dir
				nodes := starts(t, f, 3)
				again := start(t, cfg)
				again.join(nodes[2])
				waitAll(t, append(nodes, again), time.Minute)
				time.Sleep(2 * time.Second) // the file is written every half second
				end(again)
				cfg.Version = "3.0.1"
				again = start(t, cfg)
				took := waitAll(t, append(nodes, again), time.Minute)
				wait(t, 5*time.Second, "its new version is known", func() bool { return nodes[0].member(cfg.ID).Version == "3.0.1" })
				t.Logf("found after %s without a Join", took)
			})
		})
	}
}

func TestMovedNodeKeepsItsID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFabric()
		nodes := starts(t, f, 3)
		nodes[2].kill()
		moved := start(t, config(3, f.host(77))) // the same machine at another address, right after a crash
		moved.join(nodes[0])
		took := wait(t, 30*time.Second, "all see it at its new address", func() bool {
			return nodes[0].member("id-0003").Addr == moved.net.addrPort() && nodes[0].sees("id-0003") == serf.StateAlive &&
				nodes[1].member("id-0003").Addr == moved.net.addrPort() && nodes[1].sees("id-0003") == serf.StateAlive
		})
		t.Logf("taken in at its new address after %s", took)
		select {
		case <-moved.done:
			t.Fatalf("it gave up: %v", moved.err)
		default:
		}
	})
}

func TestGossipIsQuiet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFabric()
		const size = 16
		starts(t, f, size)
		time.Sleep(time.Minute)
		f.mu.Lock()
		f.bytes = 0
		f.mu.Unlock()
		const seconds = 300
		time.Sleep(seconds * time.Second)
		f.mu.Lock()
		defer f.mu.Unlock()
		perNode := f.bytes / size / seconds
		t.Logf("%d members: %d bytes of packets a second from each, the largest packet of all %d", size, perNode, f.large)
		if perNode > 2000 {
			t.Errorf("%d bytes a second from each node", perNode)
		}
		if f.large > 1280-28 {
			t.Errorf("a packet of %d bytes does not fit into one of the tailnet's", f.large)
		}
	})
}
