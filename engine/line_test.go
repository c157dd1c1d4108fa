package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"viiwork/engine"
)

func join(t *testing.T, l *engine.Line, r engine.Request) *engine.Waiter {
	t.Helper()
	w, err := l.Join(r)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func on(w *engine.Waiter) string {
	if w.Seat == nil {
		return ""
	}
	return w.Seat.Backend
}

func TestLineServesTheFirstWhoAcceptsTheSeat(t *testing.T) {
	l := engine.NewLine(10, nil)
	l.Open("a", 1, 0, time.Now())
	l.Open("b", 1, 0, time.Now())
	onA := join(t, l, engine.Request{Backends: []string{"a"}})
	onB := join(t, l, engine.Request{})
	first := join(t, l, engine.Request{Backends: []string{"a"}})
	second := join(t, l, engine.Request{})
	third := join(t, l, engine.Request{})

	if l.Only("a") != 1 || l.Only("b") != 0 {
		t.Fatalf("%d wait for a alone and %d for b, want 1 and 0", l.Only("a"), l.Only("b"))
	}
	l.Free(onB.Seat)
	if on(first) != "" || on(second) != "b" || on(third) != "" {
		t.Fatalf("seat b went to %q %q %q, want the second waiter", on(first), on(second), on(third))
	}
	l.Free(onA.Seat)
	if on(first) != "a" || on(third) != "" || l.Len() != 1 {
		t.Fatalf("seat a went to %q %q, want the first waiter", on(first), on(third))
	}
}

func TestLineNewcomerPassesOnlyWhoDoesNotAccept(t *testing.T) {
	l := engine.NewLine(10, nil)
	l.Open("a", 1, 0, time.Now())
	l.Open("b", 1, 0, time.Now())
	join(t, l, engine.Request{Backends: []string{"a"}})
	home := join(t, l, engine.Request{Backends: []string{"a"}})
	if w := join(t, l, engine.Request{}); on(w) != "b" {
		t.Fatalf("newcomer sits on %q, want the free b", on(w))
	}
	if on(home) != "" {
		t.Fatal("who accepts only a full backend got a seat")
	}
}

func TestLineChoosesPreferredThenEmptiestThenInTurn(t *testing.T) {
	for _, test := range []struct {
		name   string
		taken  []string // before
		prefer string
		want   []string
	}{
		{"preferred", nil, "b", []string{"b", "b"}},
		{"preferred is full", []string{"b", "b"}, "b", []string{"c", "a"}},
		{"emptiest", []string{"a", "c"}, "", []string{"b"}},
		{"ties go round", nil, "", []string{"a", "b", "c", "a", "b", "c"}},
		{"unknown preference", nil, "z", []string{"a", "b"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := engine.NewLine(10, nil)
			for _, id := range []string{"c", "a", "b"} { // c first, so that going round begins behind it, at a
				l.Open(id, 2, 0, time.Now())
			}
			for _, id := range test.taken {
				join(t, l, engine.Request{Backends: []string{id}})
			}
			for i, want := range test.want {
				if got := on(join(t, l, engine.Request{Prefer: test.prefer})); got != want {
					t.Errorf("grant %d went to %s, want %s", i, got, want)
				}
			}
		})
	}
}

func TestLineRefusesWhatItCannotServe(t *testing.T) {
	l := engine.NewLine(1, nil)
	if _, err := l.Join(engine.Request{}); !errors.Is(err, engine.ErrNotReady) {
		t.Errorf("no backend: %v", err)
	}
	l.Open("a", 1, 0, time.Now())
	if _, err := l.Join(engine.Request{Backends: []string{"b"}}); !errors.Is(err, engine.ErrNotReady) {
		t.Errorf("other backend: %v", err)
	}
	join(t, l, engine.Request{})
	if _, err := l.Join(engine.Request{NoWait: true}); !errors.Is(err, engine.ErrFull) {
		t.Errorf("no wait: %v", err)
	}
	waiter := join(t, l, engine.Request{})
	if _, err := l.Join(engine.Request{}); !errors.Is(err, engine.ErrLineFull) {
		t.Errorf("line full: %v", err)
	}
	l.Close("a")
	<-waiter.Done()
	if !errors.Is(waiter.Err, engine.ErrNotReady) || l.Len() != 0 {
		t.Errorf("waiter of a closed backend: %v, %d left", waiter.Err, l.Len())
	}
}

func TestLineSeatsOfAClosedBackendAreWorthNothing(t *testing.T) {
	l := engine.NewLine(10, nil)
	l.Open("a", 1, 0, time.Now())
	old := join(t, l, engine.Request{})
	l.Close("a")
	l.Open("a", 1, 0, time.Now())
	join(t, l, engine.Request{})
	next := join(t, l, engine.Request{})
	l.Free(old.Seat)
	if on(next) != "" {
		t.Fatal("a seat from before the restart was handed on")
	}
}

func TestLineReleasingSeatIsNotGranted(t *testing.T) {
	l := engine.NewLine(10, nil)
	l.Open("a", 2, 1, time.Now())
	first := join(t, l, engine.Request{})
	second := join(t, l, engine.Request{})
	if on(first) != "a" || on(second) != "" {
		t.Fatalf("granted %q and %q with one seat releasing", on(first), on(second))
	}
	l.Hold(first.Seat, time.Now())
	if on(second) != "" {
		t.Fatal("a held seat was granted")
	}
	l.Free(first.Seat)
	if on(second) != "a" {
		t.Fatal("a freed seat was not handed on")
	}
}

// TestLineNeverLosesOrDoublesASeat drives a line at random and compares it with a simple count after each step.
func TestLineNeverLosesOrDoublesASeat(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	ids := []string{"a", "b", "c"}
	size := map[string]int{}
	held := map[string]int{}
	var waiting, granted []*engine.Waiter
	l := engine.NewLine(20, func(w *engine.Waiter) {
		granted = append(granted, w)
		held[w.Seat.Backend]++
	})
	drop := func() {
		kept := waiting[:0]
		for _, w := range waiting {
			if w.Seat == nil && w.Err == nil {
				kept = append(kept, w)
			}
		}
		waiting = kept
	}
	for step := range 50_000 {
		switch rng.IntN(12) {
		case 0: // a backend comes, goes, or comes back
			id := ids[rng.IntN(3)]
			if size[id] > 0 {
				l.Close(id)
				size[id] = 0
			} else {
				size[id] = 1 + rng.IntN(3)
				l.Open(id, size[id], 0, time.Now())
			}
			held[id] = 0
			kept := granted[:0]
			for _, w := range granted {
				if w.Seat.Backend == id && size[id] == 0 {
					l.Free(w.Seat) // a lease outlives its backend
					continue
				}
				if w.Seat.Backend == id {
					held[id]++
				}
				kept = append(kept, w)
			}
			granted = kept
		case 1, 2, 3, 4, 5:
			r := engine.Request{NoWait: rng.IntN(4) == 0, Prefer: ids[rng.IntN(3)]}
			if rng.IntN(3) == 0 {
				r.Backends = []string{ids[rng.IntN(3)]}
			}
			if w, err := l.Join(r); err == nil {
				waiting = append(waiting, w)
			}
		case 6:
			if len(waiting) > 0 {
				l.Leave(waiting[rng.IntN(len(waiting))])
				drop()
				waiting = nil
				l.Refuse(engine.ErrDraining)
			}
		default:
			if len(granted) > 0 {
				i := rng.IntN(len(granted))
				w := granted[i]
				granted = append(granted[:i], granted[i+1:]...)
				held[w.Seat.Backend]--
				if rng.IntN(2) == 0 {
					l.Hold(w.Seat, time.Now())
				}
				l.Free(w.Seat)
			}
		}
		drop()
		if err := consistent(l, ids, size, held); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		for _, w := range waiting {
			for _, id := range ids {
				if held[id] < size[id] && (w.Request.Backends == nil || w.Request.Backends[0] == id) {
					t.Fatalf("step %d: somebody waits who accepts the free seat on %s", step, id)
				}
			}
		}
	}
}

func consistent(l *engine.Line, ids []string, size, held map[string]int) error {
	for _, id := range ids {
		busy := 0
		for _, s := range l.Seats(id) {
			if s.State == engine.SeatBusy {
				busy++
			}
		}
		if len(l.Seats(id)) != size[id] || busy != held[id] || busy > size[id] {
			return fmt.Errorf("%s has %d seats and %d busy, want %d and %d", id, len(l.Seats(id)), busy, size[id], held[id])
		}
	}
	return nil
}
