package mesh_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

func TestCapacityOlderThan3sRoutesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, lb := pair(t, nil)
		time.Sleep(time.Second)
		if got := a.free(b.ID); got != 4 {
			t.Fatalf("free %d, want 4; %+v", got, a.sees(b.ID))
		}
		lb.freeze()
		time.Sleep(2900*time.Millisecond - time.Second) // the last beat may be just sent or a second old
		if got := a.free(b.ID); got != 4 {
			t.Fatalf("free %d while fresh", got)
		}
		time.Sleep(1100 * time.Millisecond)
		s := a.sees(b.ID)
		if a.free(b.ID) != -1 || s.Report != nil {
			t.Fatalf("stale and routed: %+v", s)
		}
		if len(s.Known) != 1 || s.Known[0] != "m" || s.Age < 3*time.Second || s.Age > 4*time.Second {
			t.Fatalf("listed as %+v", s)
		}
		lb.thaw()
		time.Sleep(10 * time.Second)
		if got := a.free(b.ID); got != 4 {
			t.Fatalf("free %d after it is back; %+v", got, a.sees(b.ID))
		}
	})
}

func TestStoppedNodeIsStaleIn3s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := pair(t, nil)
		time.Sleep(10 * time.Second)
		b.stop()
		time.Sleep(3 * time.Second)
		if a.free(b.ID) != -1 || a.sees(b.ID).Fault == "" {
			t.Fatalf("%+v", a.sees(b.ID))
		}
		if w := a.watcher.Warnings(); len(w) != 1 || w[0].ID != "mesh_silent" {
			t.Fatalf("warnings %+v", w)
		}
	})
}

func TestChangesArriveAtOnceAndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := pair(t, nil)
		time.Sleep(1500 * time.Millisecond)
		for free := range 4 {
			b.set(capacity(free))
			time.Sleep(time.Millisecond)
		}
		b.set(capacity(1))
		before := a.sees(b.ID).Report.Seq
		time.Sleep(45 * time.Millisecond)
		s := a.sees(b.ID)
		if a.free(b.ID) != 1 || s.Report.Seq > before+2 {
			t.Fatalf("free %d, seq %d after %d", a.free(b.ID), s.Report.Seq, before)
		}
	})
}

func TestEveryWaiterIsWokenByAMembersWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := pair(t, nil)
		time.Sleep(1500 * time.Millisecond)
		woken := make(chan time.Duration)
		began := time.Now()
		for range 3 {
			go func() {
				for {
					changed := a.table.Changed()
					if a.free(b.ID) == 1 {
						woken <- time.Since(began)
						return
					}
					<-changed
				}
			}()
		}
		synctest.Wait()
		b.set(capacity(1))
		for range 3 {
			if after := <-woken; after > 40*time.Millisecond {
				t.Errorf("woken after %v, and so by something else", after)
			}
		}
	})
}

func TestARefusalWakesWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := pair(t, nil)
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait() // the members are looked at at this very moment, which wakes as well
		changed := a.table.Changed()
		a.table.MarkFull("nobody", "m") // changes nothing
		select {
		case <-changed:
			t.Fatal("woken for nothing")
		default:
		}
		a.table.MarkFull(b.ID, "m")
		select {
		case <-changed:
		default:
			t.Fatal("not woken")
		}
		select {
		case <-a.table.Changed():
			t.Fatal("woken twice for one change")
		default:
		}
	})
}

func TestUnchangedCapacityBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := pair(t, nil)
		time.Sleep(time.Second)
		seq := a.sees(b.ID).Report.Seq
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			if s := a.sees(b.ID); s.Report == nil || s.Report.Seq != seq || s.Age > 1100*time.Millisecond {
				t.Fatalf("%+v", s)
			}
		}
		if n := b.sees(a.ID); n.Member.ID != "" {
			t.Fatal("b follows a member it was never told of")
		}
	})
}

func TestSourceIsAskedWithoutAWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := pair(t, nil)
		time.Sleep(time.Second)
		b.mu.Lock()
		b.report = capacity(2) // and no Changed
		b.mu.Unlock()
		time.Sleep(1100 * time.Millisecond)
		if got := a.free(b.ID); got != 2 {
			t.Fatalf("free %d", got)
		}
	})
}

func TestRefusingMemberIsFullUntilItTellsSomethingNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := pair(t, func(_, b *node) {
			r := capacity(3)
			r.Models = append(r.Models, mesh.Model{Name: "o", Backends: []mesh.Backend{{ID: "o#0", Slots: 1, Free: 1, Ready: true}}})
			b.report = r
		})
		time.Sleep(1500 * time.Millisecond)
		a.table.MarkFull(b.ID, "m")
		a.table.MarkFull(b.ID, "unknown")
		a.table.MarkFull("nobody", "m")
		if got := a.free(b.ID); got != 0 {
			t.Fatalf("free %d after a refusal", got)
		}
		if o, _ := a.sees(b.ID).Model("o"); o.Backends[0].Free != 1 {
			t.Fatal("another model counts as full, too")
		}
		b.set(capacity(2))
		time.Sleep(40 * time.Millisecond)
		if got := a.free(b.ID); got != 2 {
			t.Fatalf("free %d after a newer report", got)
		}
		a.table.MarkFull(b.ID, "m")
		time.Sleep(1200 * time.Millisecond) // it takes back nothing, and says so
		if got := a.free(b.ID); got != 2 {
			t.Fatalf("free %d a beat after the refusal", got)
		}
	})
}

func TestDrainingMemberHasNothingFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := pair(t, nil)
		time.Sleep(time.Second)
		r := capacity(4)
		r.Draining = true
		b.set(r)
		time.Sleep(50 * time.Millisecond)
		if m, ok := a.sees(b.ID).Model("m"); !ok || m.Backends[0].Free != 0 {
			t.Fatalf("%+v %v", m, ok)
		}
	})
}

func TestSilentMemberIsQuarantinedAndProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, lb := pair(t, nil)
		time.Sleep(1500 * time.Millisecond)
		lb.freeze()
		begin := time.Now()
		ctx, heard := a.table.Guard(t.Context(), b.ID)
		defer heard()
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), mesh.ErrSilent) || time.Since(begin) > 3100*time.Millisecond {
			t.Fatalf("%v after %v", context.Cause(ctx), time.Since(begin))
		}
		if !a.sees(b.ID).Quarantined {
			t.Fatal("not in quarantine")
		}
		if w := a.watcher.Warnings(); len(w) != 1 || w[0].ID != "mesh_quarantine" {
			t.Fatalf("warnings %+v", w)
		}
		time.Sleep(20 * time.Second)
		lb.thaw()
		time.Sleep(40 * time.Second)
		if s := a.sees(b.ID); s.Quarantined || a.free(b.ID) != 4 {
			t.Fatalf("not back: %+v", s)
		}
	})
}

func TestWordFromQuarantineIsNotEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, lb := pair(t, nil)
		time.Sleep(1500 * time.Millisecond)
		lb.freeze()
		ctx, heard := a.table.Guard(t.Context(), b.ID)
		defer heard()
		<-ctx.Done()
		time.Sleep(500 * time.Millisecond)
		lb.thaw() // what was asked before is answered now
		time.Sleep(100 * time.Millisecond)
		if s := a.sees(b.ID); s.Report == nil || !s.Quarantined || a.free(b.ID) != -1 {
			t.Fatalf("free %d; %+v", a.free(b.ID), s)
		}
		time.Sleep(2 * time.Second)
		if got := a.free(b.ID); got != 4 {
			t.Fatalf("free %d after the probe", got)
		}
	})
}

func TestSlowMemberIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, lb := pair(t, nil)
		time.Sleep(1500 * time.Millisecond)
		ctx, heard := a.table.Guard(t.Context(), b.ID)
		time.Sleep(10 * time.Minute) // its beats come
		if ctx.Err() != nil || a.sees(b.ID).Quarantined {
			t.Fatal("a member that is merely slow was given up")
		}
		heard()
		lb.freeze()
		time.Sleep(time.Minute)
		if ctx.Err() != nil || a.sees(b.ID).Quarantined {
			t.Fatal("a stream past its first byte was ended")
		}
	})
}

func TestProbesGrow(t *testing.T) {
	for _, c := range []struct {
		strikes, probes int
		want            time.Duration
	}{
		{1, 0, time.Second}, {1, 1, 2 * time.Second}, {1, 4, 16 * time.Second}, {1, 5, 30 * time.Second},
		{2, 0, 2 * time.Second}, {3, 2, 16 * time.Second}, {1 << 30, 1 << 30, 30 * time.Second},
	} {
		if got := mesh.HoldTime(c.strikes, c.probes); got != c.want {
			t.Errorf("strikes %d, probes %d: %v, want %v", c.strikes, c.probes, got, c.want)
		}
	}
}

func TestMemberThatGossipLostIsKeptWhileItSpeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := make(chan struct{})
		a, b, _ := pair(t, func(a, _ *node) {
			a.members = func() []mesh.Member {
				select {
				case <-lost:
					return nil
				default:
					return []mesh.Member{member(2)}
				}
			}
		})
		time.Sleep(time.Second)
		close(lost)
		time.Sleep(10 * time.Second)
		if s := a.sees(b.ID); !s.Gone || a.free(b.ID) != 4 {
			t.Fatalf("%+v", s)
		}
		b.stop()
		time.Sleep(4 * time.Second)
		if s := a.sees(b.ID); s.Member.ID != "" {
			t.Fatalf("still listed: %+v", s)
		}
	})
}

func TestMemberMovesToAnotherAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		moved := make(chan struct{})
		there := member(2)
		there.Addr = "10.0.0.77:8086"
		var web *network
		a, b, lb := pair(t, func(a, _ *node) {
			a.members = func() []mesh.Member {
				select {
				case <-moved:
					return []mesh.Member{there}
				default:
					return []mesh.Member{member(2)}
				}
			}
		})
		web = lb.net
		time.Sleep(time.Second)
		b.stop()
		again := newNode(t, there, b.keys, web.DialContext)
		again.report = capacity(1)
		again.start(web.listen(there.Addr))
		t.Cleanup(func() { again.stop() })
		close(moved)
		time.Sleep(time.Second)
		if got := a.free(b.ID); got != 1 || a.sees(b.ID).Member.Addr != there.Addr {
			t.Fatalf("free %d; %+v", got, a.sees(b.ID))
		}
	})
}
