package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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

// TestDeadEntryLosesItsSeatsAndNobodyElseAny: an entry dies with a forward that runs, an ask in the line and a seat that it
// was granted, and no FIN ever comes.
func TestDeadEntryLosesItsSeatsAndNobodyElseAny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t, newLoft(t, 8, 1, "a", "b"), 2)
		dying, living := m.entries[0], m.entries[1]
		ended, end := context.WithCancelCause(context.Background())
		his := dying.take(t.Context(), mesh.Ask{Model: "m", Backends: []string{"a"}})
		unbind := m.desk.Bind("n01", end)
		context.AfterFunc(ended, func() { his.Release(); unbind() })
		running, endOther := context.WithCancelCause(context.Background())
		hers := living.take(t.Context(), mesh.Ask{Model: "m", Backends: []string{"b"}})
		defer m.desk.Bind("n02", endOther)()
		dying.wait(mesh.Ask{Model: "m", WaitMS: 10 * minute}) // for either
		waits := living.wait(mesh.Ask{Model: "m", Backends: []string{"a"}, WaitMS: minute})
		m.holds("before it dies", 2, 2)
		time.Sleep(20 * time.Second) // all is well, whatever time passes
		m.holds("while all live", 2, 2)

		died := time.Now()
		dying.die()
		time.Sleep(8900 * time.Millisecond) // it was last heard up to a second before
		m.holds("9 s after", 2, 2)
		<-ended.Done()
		<-waits.done
		t.Logf("its seats are free after %v", time.Since(died))
		if took := time.Since(died); took > 12*time.Second || !errors.Is(context.Cause(ended), mesh.ErrEntryLost) {
			t.Fatalf("after %v its forward has %v", took, context.Cause(ended))
		}
		if running.Err() != nil || waits.err != nil {
			t.Fatalf("another entry's forward: %v; its ask: %v", context.Cause(running), waits.err)
		}
		m.holds("all else goes on", 2, 0)
		seat, ok := m.desk.Redeem("n02", waits.grant.ID, "m")
		if !ok {
			t.Fatal("the living entry's lease is none")
		}
		seat.Release()
		hers.Release()
		m.holds("all is over", 0, 0)
	})
}

func TestGrantToADeadEntryLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t, newLoft(t, 8, 1, "a"), 2)
		seat := m.entries[1].take(t.Context(), mesh.Ask{Model: "m"})
		m.entries[0].wait(mesh.Ask{Model: "m", WaitMS: minute})
		next := m.entries[1].wait(mesh.Ask{Model: "m", WaitMS: minute})
		m.entries[0].die()
		seat.Release() // it goes to the dead one, which is not known to be dead
		time.Sleep(2500 * time.Millisecond)
		if !next.isDone() || next.err != nil {
			t.Fatalf("the next in the line has %v", next.err)
		}
	})
}

func TestOwnersStandstillLosesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoft(t, 8, 1, "a")
		k := keys(t, mesh.KeyConfig{Secret: secret})
		owner := newNode(t, member(9), k, nil)
		owner.verifier = mesh.NewVerifier(mesh.VerifierConfig{ID: owner.ID, Keys: k})
		owner.table = mesh.NewTable(0)
		mesh.Beat(owner.table)
		mesh.Fill(owner.table, []mesh.Member{member(1)}, capacity(1))
		desk := newDesk(owner, l)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { check(t, desk.Run(ctx)) })
		defer wg.Wait()
		defer cancel()
		asker := newDirect(t, desk, k, "n01")

		granted := asker.post(`{"model":"m"}`)
		waits := asker.begin(`{"model":"m","wait_ms":30000}`)
		lost, end := context.WithCancelCause(t.Context())
		defer desk.Bind("n01", end)()
		time.Sleep(time.Minute) // without a beat: the process stands still
		synctest.Wait()
		if lost.Err() != nil || waits.ended() {
			t.Fatalf("given up for the time the owner stood still: %v, %s", context.Cause(lost), waits.body())
		}
		seat, ok := desk.Redeem("n01", granted.lease(), "m")
		if !ok {
			t.Fatal("a granted seat lapsed while the owner stood still")
		}
		for range 4 {
			awake(owner.table, 5*time.Second)
			mesh.Hear(owner.table, "n01", &mesh.Report{})
		}
		if lost.Err() != nil || waits.ended() {
			t.Fatalf("an entry that is heard was given up: %v, %s", context.Cause(lost), waits.body())
		}
		awake(owner.table, 9*time.Second)
		if lost.Err() != nil {
			t.Fatal("given up early")
		}
		awake(owner.table, 2*time.Second)
		synctest.Wait()
		if !errors.Is(context.Cause(lost), mesh.ErrEntryLost) || !waits.ended() {
			t.Fatalf("silent for 11 s: %v, %s", context.Cause(lost), waits.body())
		}
		seat.Release()
		if held, waiting := l.state(); held != 0 || waiting != 0 {
			t.Fatalf("%d held, %d waiting", held, waiting)
		}
	})
}

func TestDeskClosesWithItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoft(t, 8, 1, "a")
		k := keys(t, mesh.KeyConfig{Secret: secret})
		owner := newNode(t, member(9), k, nil)
		owner.verifier = mesh.NewVerifier(mesh.VerifierConfig{ID: owner.ID, Keys: k})
		owner.table = mesh.NewTable(0)
		desk := newDesk(owner, l)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); check(t, desk.Run(ctx)) }()
		asker := newDirect(t, desk, k, "n01")
		granted := asker.post(`{"model":"m"}`)
		waits := asker.begin(`{"model":"m","wait_ms":30000}`)
		running, end := context.WithCancelCause(t.Context())
		defer desk.Bind("n01", end)()
		cancel()
		<-done
		synctest.Wait()
		if _, ok := desk.Redeem("n01", granted.lease(), "m"); ok || !waits.ended() || running.Err() != nil {
			t.Errorf("redeemed %v, answer %s, forward %v", ok, waits.body(), running.Err())
		}
		if late := asker.post(`{"model":"m"}`); late.status() != 503 {
			t.Errorf("asked afterwards: %d %s", late.status(), late.body())
		}
		if held, waiting := l.state(); held != 0 || waiting != 0 {
			t.Errorf("%d held, %d waiting", held, waiting)
		}
		if desk.Run(t.Context()) == nil {
			t.Error("it ran twice")
		}
	})
}
