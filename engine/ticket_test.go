package engine_test

import (
	"errors"
	"testing"
	"time"

	"viiwork/engine"
)

// TestTicketKeepsItsPlace: who queues first is served first, sees the line shorten, and leaves nothing behind when it
// goes, whether it has a place, or a slot that it never collected.
func TestTicketKeepsItsPlace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.run(h.model("m", 1, 1))
		pass(10 * time.Second)
		queue := func() *engine.Ticket {
			ticket, err := h.Queue(engine.Request{Model: "m"})
			if err != nil {
				t.Fatal(err)
			}
			return ticket
		}
		first := queue()
		lease, err := first.Collect()
		if err != nil {
			t.Fatal(err)
		}
		gone, next, last := queue(), queue(), queue()
		if gone.Ahead() != 0 || next.Ahead() != 1 || last.Ahead() != 2 {
			t.Fatalf("places %d, %d, %d", gone.Ahead(), next.Ahead(), last.Ahead())
		}
		gone.Leave()
		if next.Ahead() != 0 || last.Ahead() != 1 {
			t.Fatalf("after the first has left: places %d, %d", next.Ahead(), last.Ahead())
		}
		pass(3 * time.Second)
		first.Leave() // collected: nothing happens
		if l, err := first.Collect(); l != nil || err == nil {
			t.Fatal("one lease was collected twice")
		}
		lease.Release()
		<-next.Done()
		select {
		case <-last.Done():
			t.Fatal("one slot was granted twice")
		default:
		}
		next.Leave() // it never collected
		<-last.Done()
		got, err := last.Collect()
		if err != nil {
			t.Fatal(err)
		}
		if q := got.Timing(); !q.Waited || q.Queued < 3*time.Second {
			t.Errorf("timing %+v", q)
		}
		got.Release()
		if s := h.Snapshot()[0]; s.Waiting != 0 || s.Backends[0].Slots[0].State != "free" {
			t.Errorf("left behind: %+v", s)
		}
	})
}

// TestDrainRefusesTickets: a place in the line of a draining node ends in ErrDraining.
func TestDrainRefusesTickets(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.run(h.model("m", 1, 1))
		pass(10 * time.Second)
		held, _ := h.Queue(engine.Request{Model: "m"})
		defer held.Leave()
		waiting, err := h.Queue(engine.Request{Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		h.Drain(true)
		<-waiting.Done()
		if _, err := waiting.Collect(); !errors.Is(err, engine.ErrDraining) {
			t.Errorf("refused with %v", err)
		}
		if _, err := h.Queue(engine.Request{Model: "m"}); !errors.Is(err, engine.ErrDraining) {
			t.Errorf("queued while draining: %v", err)
		}
	})
}

// TestExpectedWait follows the mean of how long requests took their slots.
func TestExpectedWait(t *testing.T) {
	state := engine.ModelState{Backends: []engine.BackendState{
		{State: engine.StateReady, Slots: make([]engine.SlotView, 4)}, {State: engine.StateLoading, Slots: make([]engine.SlotView, 4)},
	}}
	if d := state.ExpectedWait(0); d != -1 {
		t.Errorf("nothing known: %s", d)
	}
	state.Hold = 8 * time.Second
	if d := state.ExpectedWait(0); d != 2*time.Second {
		t.Errorf("next of four slots held for 8 s: %s", d)
	}
	if d := state.ExpectedWait(5); d != 12*time.Second {
		t.Errorf("with five ahead: %s", d)
	}
}
