package mesh_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

const minute = int64(60_000)

// waiting asks in the background, as asks that wait do.
type waiting struct {
	done  chan struct{}
	grant mesh.Grant
	err   error
	leave context.CancelFunc

	mu     sync.Mutex
	places []string
}

func (e *trader) wait(a mesh.Ask) *waiting {
	ctx, cancel := context.WithCancel(context.Background())
	w := &waiting{done: make(chan struct{}), leave: cancel}
	go func() {
		defer cancel()
		defer close(w.done)
		w.grant, w.err = e.client.AskSeat(ctx, member(9), a, func(ahead int, expect time.Duration) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.places = append(w.places, fmt.Sprint(ahead, expect))
		})
	}()
	synctest.Wait()
	return w
}

func (w *waiting) isDone() bool {
	time.Sleep(20 * time.Millisecond) // who asks reads a line each 10 ms
	synctest.Wait()
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

func refusedAs(err error) string {
	var r *mesh.SeatRefused
	if !errors.As(err, &r) {
		return fmt.Sprintf("no refusal: %v", err)
	}
	return fmt.Sprintf("%d %s", r.Status, r.Code)
}

// holds wants that many seats held and places taken.
func (m *market) holds(when string, held, waiting int) {
	m.t.Helper()
	synctest.Wait()
	if h, w := m.state(); h != held || w != waiting {
		m.t.Fatalf("%s: %d held, %d waiting; want %d and %d", when, h, w, held, waiting)
	}
}

func (m *market) empty(when string) {
	m.t.Helper()
	m.holds(when, 0, 0)
	if entries, claims := m.desk.Open(); entries != 0 || claims != 0 {
		m.t.Fatalf("%s: the desk still knows %d entries and %d claims", when, entries, claims)
	}
}

func TestFreeSeatIsGrantedAtOnceAndRedeemedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t, newLoft(t, 8, 2, "a", "b"), 2)
		e := m.entries[0]
		g, err := e.ask(t.Context(), mesh.Ask{Model: "m", Prefer: "b", Session: "s"})
		if err != nil || g.Backend != "b" || len(g.ID) != 22 {
			t.Fatalf("%+v, %v", g, err)
		}
		for _, wrong := range []struct{ entry, lease, model string }{
			{"n02", g.ID, "m"}, {"n01", g.ID, "other"}, {"n01", "AAAAAAAAAAAAAAAAAAAAAA", "m"}, {"n01", "", "m"}, {"", g.ID, "m"},
		} {
			if _, ok := m.desk.Redeem(wrong.entry, wrong.lease, wrong.model); ok {
				t.Fatalf("redeemed as %q for %q", wrong.entry, wrong.model)
			}
		}
		seat, ok := m.desk.Redeem("n01", g.ID, "m")
		if !ok || seat.Backend() != "b" {
			t.Fatal("a granted seat was not redeemed")
		}
		if _, ok := m.desk.Redeem("n01", g.ID, "m"); ok {
			t.Fatal("redeemed twice")
		}
		if err := e.client.ReturnSeat(t.Context(), member(9), g.ID); err != nil {
			t.Fatalf("returning a used one: %v", err)
		}
		m.holds("a used lease was returned", 1, 0)
		seat.Release()
		m.empty("released")
	})
}

func TestAskWaitsInTheLineAndIsToldItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t, newLoft(t, 8, 1, "a"), 2)
		seat := m.entries[0].take(t.Context(), mesh.Ask{Model: "m"})
		first := m.entries[0].wait(mesh.Ask{Model: "m", WaitMS: minute})
		second := m.entries[1].wait(mesh.Ask{Model: "m", WaitMS: minute})
		time.Sleep(2500 * time.Millisecond)
		seat.Release()
		if !first.isDone() || first.err != nil || second.isDone() {
			t.Fatalf("the first of the line has %v", first.err)
		}
		seat, _ = m.desk.Redeem("n01", first.grant.ID, "m")
		time.Sleep(time.Second)
		seat.Release()
		if !second.isDone() || second.err != nil {
			t.Fatalf("the second of the line has %v", second.err)
		}
		if got := fmt.Sprint(second.places); got != "[1 1s 1 1s 1 1s 0 0s]" { // at once, each second, and on a change
			t.Errorf("it was told %s", got)
		}
		seat, _ = m.desk.Redeem("n02", second.grant.ID, "m")
		seat.Release()
		m.empty("all is over")
	})
}

func TestSeatsAreRefusedWithTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t, newLoft(t, 1, 1, "a"), 1)
		e := m.entries[0]
		ask := func(model string, wait int64) string {
			_, err := e.ask(t.Context(), mesh.Ask{Model: model, WaitMS: wait})
			return refusedAs(err)
		}
		if got := ask("nothing", minute); got != "404 model_not_found" {
			t.Errorf("unknown model: %s", got)
		}
		seat := e.take(t.Context(), mesh.Ask{Model: "m"})
		if got := ask("m", 0); got != "429 node_full" {
			t.Errorf("no wait: %s", got)
		}
		waits := e.wait(mesh.Ask{Model: "m", WaitMS: 5000})
		_, err := e.ask(t.Context(), mesh.Ask{Model: "m", WaitMS: minute})
		var full *mesh.SeatRefused
		if !errors.As(err, &full) || full.Code != "line_full" || full.RetryAfter != 2*time.Second || full.Message != "the line is full" {
			t.Errorf("full line: %+v", full)
		}
		time.Sleep(4900 * time.Millisecond)
		if waits.isDone() {
			t.Fatalf("it gave up early: %v", waits.err)
		}
		time.Sleep(200 * time.Millisecond)
		if !waits.isDone() || refusedAs(waits.err) != "429 queue_timeout" {
			t.Fatalf("time is over: %v", waits.err)
		}
		m.holds("its time was over", 1, 0)
		waits = e.wait(mesh.Ask{Model: "m", WaitMS: minute})
		m.drain()
		if !waits.isDone() || refusedAs(waits.err) != "503 draining" {
			t.Errorf("in the line while the node drains: %v", waits.err)
		}
		if got := ask("m", minute); got != "503 draining" {
			t.Errorf("draining: %s", got)
		}
		seat.Release()
		m.empty("all is over")
	})
}

func TestCancelledAskGivesUpItsPlaceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t, newLoft(t, 8, 1, "a"), 2)
		seat := m.entries[0].take(t.Context(), mesh.Ask{Model: "m"})
		gone := m.entries[0].wait(mesh.Ask{Model: "m", WaitMS: minute})
		next := m.entries[1].wait(mesh.Ask{Model: "m", WaitMS: minute})
		gone.leave()
		m.holds("at once after the first has left", 1, 1)
		if !gone.isDone() || !errors.Is(gone.err, context.Canceled) {
			t.Errorf("it ended with %v", gone.err)
		}
		seat.Release()
		if !next.isDone() || next.err != nil {
			t.Fatalf("the next: %v", next.err)
		}
		seat, _ = m.desk.Redeem("n02", next.grant.ID, "m")
		seat.Release()
		m.empty("all is over")
	})
}

func TestUnusedSeatLapsesAndAReturnedOneIsFreeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t, newLoft(t, 8, 1, "a"), 2)
		e := m.entries[0]
		g, err := e.ask(t.Context(), mesh.Ask{Model: "m"})
		check(t, err)
		next := m.entries[1].wait(mesh.Ask{Model: "m", WaitMS: minute})
		time.Sleep(1900 * time.Millisecond)
		if next.isDone() {
			t.Fatal("a granted seat went to another before its time")
		}
		time.Sleep(400 * time.Millisecond)
		if !next.isDone() || next.err != nil {
			t.Fatalf("nobody came for the seat, and the next has %v", next.err)
		}
		if _, ok := m.desk.Redeem("n01", g.ID, "m"); ok {
			t.Fatal("a lapsed lease was redeemed")
		}
		if err := e.client.ReturnSeat(t.Context(), member(9), next.grant.ID); err != nil {
			t.Fatal(err)
		}
		m.holds("another entry returned the lease", 1, 0)
		if err := m.entries[1].client.ReturnSeat(t.Context(), member(9), next.grant.ID); err != nil {
			t.Fatal(err)
		}
		m.empty("returned")
	})
}

func TestThousandWaitersOfOneEntryAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t, newLoft(t, 10_000, 1, "a"), 2)
		seat := m.entries[0].take(t.Context(), mesh.Ask{Model: "m"})
		var waits, full atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		crowd := func(n int) {
			for range n {
				wg.Go(func() {
					switch _, err := m.entries[0].ask(ctx, mesh.Ask{Model: "m", WaitMS: minute}); {
					case refusedAs(err) == "429 line_full":
						full.Add(1)
					case errors.Is(err, context.Canceled):
						waits.Add(1)
					default:
						t.Errorf("answered with %v", err)
					}
				})
			}
			time.Sleep(2 * time.Second)
		}
		crowd(1000)
		m.holds("a thousand ask", 1, mesh.MaxClaimsEach)
		other := m.entries[1].wait(mesh.Ask{Model: "m", WaitMS: minute})
		m.holds("another entry asks as well", 1, mesh.MaxClaimsEach+1)
		before := heap()
		for range 2 {
			crowd(1000)
		}
		if grown := heap() - before; grown > 4<<20 {
			t.Errorf("2,000 refused asks left %d bytes", grown)
		}
		cancel()
		wg.Wait()
		m.holds("all have left", 1, 1)
		if waits.Load() != mesh.MaxClaimsEach || full.Load() != 3000-mesh.MaxClaimsEach {
			t.Errorf("%d waited, %d were refused", waits.Load(), full.Load())
		}
		seat.Release()
		if !other.isDone() || other.err != nil {
			t.Errorf("the other entry: %v", other.err)
		}
	})
}

func heap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools kept through the first
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

func TestWaitersOfThreeEntriesAreServedInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t, newLoft(t, 64, 1, "a"), 3)
		seat := m.entries[0].take(t.Context(), mesh.Ask{Model: "m"})
		var all []*waiting
		for i := range 30 {
			all = append(all, m.entries[i*7%3].wait(mesh.Ask{Model: "m", WaitMS: minute}))
		}
		for i, w := range all {
			seat.Release()
			if !w.isDone() || w.err != nil {
				t.Fatalf("waiter %d has %v", i, w.err)
			}
			for j, later := range all[i+1:] {
				if later.isDone() {
					t.Fatalf("waiter %d was served before %d", i+1+j, i)
				}
			}
			var ok bool
			if seat, ok = m.desk.Redeem(m.entries[i*7%3].ID, w.grant.ID, "m"); !ok {
				t.Fatalf("waiter %d has no seat", i)
			}
			time.Sleep(100 * time.Millisecond)
		}
		seat.Release()
		m.empty("all are served")
	})
}

// TestLongestNamesAreUnderstood: a model may have 200 bytes, and its backends' ids are that name and a number.
func TestLongestNamesAreUnderstood(t *testing.T) {
	name := strings.Repeat("m", 200)
	id := name + "#63"
	r := mesh.Report{Wire: mesh.Wire, ID: "n01", Name: "attic", Epoch: 1, Seq: 1,
		Models: []mesh.Model{{Name: name, Backends: []mesh.Backend{{ID: id, Slots: 1, Free: 1, Ready: true}}}}}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mesh.ReadReport(text); err != nil {
		t.Errorf("telling of it: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t, newLoft(t, 8, 1, id), 1)
		g, err := m.entries[0].ask(t.Context(), mesh.Ask{Model: "m", Backends: []string{id}, Prefer: id})
		if err != nil || g.Backend != id {
			t.Errorf("asking for it: %+v, %v", g, err)
		}
	})
}
