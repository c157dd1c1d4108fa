package engine_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"viiwork/engine"
)

// TestNoSlotIsLostOrDoubled runs 10,000 acquire, cancel and release operations at random from many goroutines.
func TestNoSlotIsLostOrDoubled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t, func(c *engine.Config) { c.QueueMax = 16 })
		m := h.model("m", 3, 2)
		h.run(m)
		pass(10 * time.Second)
		ids := []string{"m#0", "m#1", "m#2"}
		var (
			mu     sync.Mutex
			held   = map[string]int{}
			counts = map[string]int{}
			wg     sync.WaitGroup
		)
		for worker := range 40 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(worker), 7))
				for range 250 {
					r := engine.Request{Model: "m", NoWait: rng.IntN(5) == 0, Prefer: ids[rng.IntN(3)]}
					if rng.IntN(2) == 0 {
						r.Backends = ids[:1+rng.IntN(3)]
					}
					ctx, cancel := context.WithTimeoutCause(t.Context(), time.Duration(rng.IntN(20))*time.Millisecond, errPatience)
					l, err := h.Acquire(ctx, r)
					cancel()
					mu.Lock()
					switch {
					case err == nil:
						counts["granted"]++
						if held[l.Backend()]++; held[l.Backend()] > 2 {
							t.Errorf("%s runs %d requests on 2 slots", l.Backend(), held[l.Backend()])
						}
						if r.Backends != nil && !slices.Contains(r.Backends, l.Backend()) {
							t.Errorf("granted %s, which it does not accept", l.Backend())
						}
					case errors.Is(err, errPatience):
						counts["left"]++
					case errors.Is(err, engine.ErrFull):
						counts["full"]++
					case errors.Is(err, engine.ErrLineFull):
						counts["line full"]++
					default:
						t.Errorf("acquire: %v", err)
					}
					mu.Unlock()
					time.Sleep(time.Duration(rng.IntN(5)) * time.Millisecond)
					if l == nil {
						continue
					}
					mu.Lock()
					held[l.Backend()]--
					mu.Unlock()
					l.Release()
					if rng.IntN(3) == 0 {
						l.Release() // again does nothing
					}
				}
			})
		}
		wg.Wait()
		for _, kind := range []string{"granted", "left", "full", "line full"} {
			if counts[kind] == 0 {
				t.Errorf("nobody ended as %q: the test does not reach it", kind)
			}
		}
		t.Log(counts)
		pass(time.Minute) // the engines have let go of all that was given back
		var all []*engine.Lease
		for range 6 {
			all = append(all, h.acquire(engine.Request{Model: "m", NoWait: true}))
		}
		if _, err := h.Acquire(t.Context(), engine.Request{Model: "m", NoWait: true}); !errors.Is(err, engine.ErrFull) {
			t.Errorf("a seventh seat: %v", err)
		}
		for _, l := range all {
			l.Release()
		}
	})
}

var errPatience = errors.New("no more patience")

func TestWaitersAreServedInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.run(h.model("m", 1, 1))
		pass(2 * time.Second)
		first := h.acquire(engine.Request{Model: "m", Session: "s0"})
		if s := h.state("m#0").Slots[0]; s.State != "busy" || s.Session != "s0" {
			t.Errorf("slot is %+v", s)
		}
		order := make(chan int, 10)
		for i := range 5 {
			go func() {
				l := h.acquire(engine.Request{Model: "m"})
				if tm := l.Timing(); !tm.Waited || tm.Queued < time.Second {
					t.Errorf("timing %+v of somebody who waited", tm)
				}
				order <- i
				l.Release()
			}()
			pass(time.Millisecond)
		}
		if h.waiting("m") != 5 {
			t.Errorf("%d wait, want 5", h.waiting("m"))
		}
		pass(time.Second)
		first.Release()
		pass(0)
		for want := range 5 {
			if got := <-order; got != want {
				t.Fatalf("%d was served, want %d", got, want)
			}
		}
	})
}

func TestAcquireErrors(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t, func(c *engine.Config) { c.QueueMax = 1 })
		m := h.model("m", 1, 1)
		h.Apply([]engine.Model{m})
		try := func(want error, r engine.Request) {
			t.Helper()
			if _, err := h.Acquire(t.Context(), r); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		}
		try(engine.ErrUnknownModel, engine.Request{Model: "n"})
		try(engine.ErrNotReady, engine.Request{Model: "m"})
		h.run(m)
		pass(2 * time.Second)
		try(engine.ErrNotReady, engine.Request{Model: "m", Backends: []string{"m#9"}})
		l := h.acquire(engine.Request{Model: "m"})
		try(engine.ErrFull, engine.Request{Model: "m", NoWait: true})
		ended := make(chan error, 1)
		go func() {
			_, err := h.Acquire(context.Background(), engine.Request{Model: "m"})
			ended <- err
		}()
		pass(time.Millisecond)
		try(engine.ErrLineFull, engine.Request{Model: "m"})
		h.runner.all()[0].die("exit status 1")
		if err := <-ended; !errors.Is(err, engine.ErrNotReady) {
			t.Errorf("waiter of a dead backend: %v", err)
		}
		l.Release()
	})
}

func TestNobodyWaitsWhereNoneMay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t, func(c *engine.Config) { c.QueueMax = -1 })
		m := h.model("m", 1, 1)
		h.Apply([]engine.Model{m})
		h.run(m)
		pass(2 * time.Second)
		l := h.acquire(engine.Request{Model: "m"})
		if _, err := h.Acquire(t.Context(), engine.Request{Model: "m"}); !errors.Is(err, engine.ErrLineFull) {
			t.Errorf("got %v, want ErrLineFull", err)
		}
		l.Release()
		pass(time.Second)
		h.acquire(engine.Request{Model: "m"}).Release()
	})
}

func TestDrainGrantsNothingAndLeavesTheHeld(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.run(h.model("m", 1, 1))
		pass(2 * time.Second)
		l := h.acquire(engine.Request{Model: "m"})
		waiter := make(chan error, 1)
		go func() {
			_, err := h.Acquire(context.Background(), engine.Request{Model: "m"})
			waiter <- err
		}()
		pass(time.Millisecond)
		h.Drain(true)
		if err := <-waiter; !errors.Is(err, engine.ErrDraining) {
			t.Errorf("waiter got %v", err)
		}
		if _, err := h.Acquire(t.Context(), engine.Request{Model: "m"}); !errors.Is(err, engine.ErrDraining) {
			t.Errorf("newcomer got %v", err)
		}
		h.want("m#0", engine.StateDraining)
		if s := h.state("m#0").Slots[0].State; s != "busy" {
			t.Errorf("the slot of a held lease is %s", s)
		}
		l.Release()
		pass(time.Second)
		h.want("m#0", engine.StateDraining)
		h.Drain(false)
		h.acquire(engine.Request{Model: "m"}).Release()
	})
}

func TestEndedEngineGrantsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.run(h.model("m", 1, 1))
		pass(2 * time.Second)
		l := h.acquire(engine.Request{Model: "m"})
		h.stop()
		if !h.runner.all()[0].alive() {
			t.Error("the engine did not outlive Run")
		}
		if _, err := h.Acquire(t.Context(), engine.Request{Model: "m"}); !errors.Is(err, engine.ErrDraining) {
			t.Errorf("after Run: %v", err)
		}
		l.Release()
		if err := h.Run(t.Context()); err == nil {
			t.Error("Run ran twice")
		}
	})
}
