package mesh_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

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
