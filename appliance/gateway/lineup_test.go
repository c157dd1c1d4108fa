package gateway_test

import (
	"testing"

	"viiwork/appliance/gateway"
	"viiwork/engine"
)

// TestTheLineupKeepsItsOrder: a request that comes back has its place, one that only passes through is not counted, and
// who comes to a lineup that is full is sent away, unless it was in it before.
func TestTheLineupKeepsItsOrder(t *testing.T) {
	t.Parallel()
	l := gateway.NewLineup(2)
	first, second, third := l.Join("m", 0), l.Join("m", 0), l.Join("m", 0)
	if !l.First(first) || l.First(second) {
		t.Fatal("who came first is not the first")
	}
	other := l.Join("o", 0)
	if !l.First(other) || l.Wait(other, false) != nil {
		t.Error("models are not kept apart")
	}
	for _, p := range []gateway.Place{first, first, second} {
		if err := l.Wait(p, false); err != nil {
			t.Errorf("two may wait: %v", err)
		}
	}
	if err := l.Wait(third, false); err != engine.ErrLineFull {
		t.Errorf("beyond the bound: %v", err)
	}
	l.Leave(first)
	if !second.Told() || third.Told() || !l.First(second) {
		t.Error("the next was not told")
	}
	if err := l.Wait(third, false); err != nil {
		t.Errorf("there is room again: %v", err)
	}
	back := l.Join("m", first.Ticket())
	if !l.First(back) || l.First(second) {
		t.Error("who came back has lost its place")
	}
	if err := l.Wait(back, true); err != nil {
		t.Errorf("who came back is sent away for those who came later: %v", err)
	}
	for _, p := range []gateway.Place{third, back, second, other} {
		l.Leave(p)
	}
	if l.Models() != 0 {
		t.Error("an empty lineup is kept")
	}
}

// TestNobodyWaitsWhereNoneMay.
func TestNobodyWaitsWhereNoneMay(t *testing.T) {
	t.Parallel()
	l := gateway.NewLineup(-1)
	if err := l.Wait(l.Join("m", 0), false); err != engine.ErrLineFull {
		t.Error(err)
	}
}
