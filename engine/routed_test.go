package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"viiwork/engine"
)

// TestNothingIsRoutedToABackendThatIsNotReady takes one of two backends through all that can become of it: only in
// ready, and not on a node that drains, does anybody get its seat, however much it is preferred.
func TestNothingIsRoutedToABackendThatIsNotReady(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		var broken atomic.Bool
		h.runner.loads = 10 * time.Second
		h.runner.failing = func(s engine.Spec) error {
			if broken.Load() && s.Backend == "m#1" {
				return errors.New("no such card")
			}
			return nil
		}
		m := h.model("m", 2, 1)
		h.run(m)
		never := func(s engine.State) {
			t.Helper()
			h.want("m#1", s)
			if l, err := h.Acquire(t.Context(), engine.Request{Model: "m", Backends: []string{"m#1"}, NoWait: true}); err == nil {
				t.Errorf("granted while it is %s", s)
				l.Release()
			}
			if l, err := h.Acquire(t.Context(), engine.Request{Model: "m", Prefer: "m#1", NoWait: true}); err == nil {
				if l.Backend() == "m#1" {
					t.Errorf("preferred, and granted while it is %s", s)
				}
				l.Release()
			}
		}
		always := func() {
			t.Helper()
			h.want("m#1", engine.StateReady)
			l := h.acquire(engine.Request{Model: "m", Backends: []string{"m#1"}, NoWait: true})
			l.Release()
		}
		pass(time.Second)
		never(engine.StateStarting) // waits its turn behind m#0
		pass(12 * time.Second)
		never(engine.StateLoading)
		pass(12 * time.Second)
		always()

		last := func() *fakeProcess { all := h.runner.of("m#1"); return all[len(all)-1] }
		last().die("exit status 1")
		pass(500 * time.Millisecond)
		never(engine.StateRestarting)
		pass(20 * time.Second)
		always()

		h.Drain(true)
		never(engine.StateDraining)
		h.Drain(false)
		always()

		broken.Store(true)
		last().die("exit status 1")
		pass(20 * time.Second)
		never(engine.StateFailed)
		broken.Store(false)
		pass(2 * time.Minute)
		always()

		held := h.acquire(engine.Request{Model: "m", Backends: []string{"m#1"}})
		waiter := make(chan error, 1)
		go func() {
			_, err := h.Acquire(context.Background(), engine.Request{Model: "m", Backends: []string{"m#1"}})
			waiter <- err
		}()
		pass(time.Millisecond)
		h.Apply(nil)
		held.Release() // its seat is free again, of a backend that is on its way out
		if err := <-waiter; !errors.Is(err, engine.ErrUnknownModel) {
			t.Errorf("waiting for a removed model: %v", err)
		}
	})
}
