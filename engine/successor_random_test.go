package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"viiwork/engine"
)

// TestWhateverHappensOneEngineOfEachBackendIsLeft changes programs and settings, kills engines and ends nodes at random
// moments. There are never more than two engines of a backend, and in the end one, the wanted one. As long as nothing but
// programs changes, no request is refused.
func TestWhateverHappensOneEngineOfEachBackendIsLeft(t *testing.T) {
	for seed := range uint64(60) {
		calm, room := seed%3 == 0, seed%2 == 0
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T) { storm(t, rand.New(rand.NewPCG(seed, 1)), calm, room) })
		})
	}
}

func storm(t *testing.T, r *rand.Rand, calm, room bool) {
	h := newHouse(t, func(c *engine.Config) {
		c.Room = func(context.Context, engine.Model, []int) error {
			if !room {
				return errors.New("no room")
			}
			return nil
		}
	})
	m := h.model("m", 2, 1)
	h.run(m)
	pass(5 * time.Second)
	h.runner.loads = 8 * time.Second
	for range 15 {
		act := r.IntN(10)
		switch {
		case calm || act < 5:
			m.Binary = fmt.Sprint("program ", r.IntN(3))
			h.Apply([]engine.Model{m})
		case act < 7:
			if all := h.living(); len(all) > 0 {
				all[r.IntN(len(all))].die("killed by SIGKILL")
			}
		case act < 8:
			m.Args = []string{fmt.Sprint("--x", r.IntN(3))}
			h.Apply([]engine.Model{m})
		case act < 9:
			h.remake()
			h.run(m)
		default:
			if l, err := h.Acquire(context.Background(), engine.Request{Model: "m", NoWait: true}); err == nil {
				time.AfterFunc(time.Duration(r.IntN(60))*time.Second, l.Release)
			}
		}
		for range 1 + r.IntN(40) {
			pass(500 * time.Millisecond)
			of := map[string]int{}
			for _, p := range h.living() {
				of[p.rec.Backend[:len("m#0")]]++
			}
			if of["m#0"] > 2 || of["m#1"] > 2 || calm && of["m#0"]+of["m#1"] > 3 {
				t.Fatalf("engines: %v", of)
			}
			if calm { // with two backends one serves at each moment, even where there is no room
				h.takesNewRequests("m")
			}
		}
	}
	pass(20 * time.Minute)
	for _, b := range h.Snapshot()[0].Backends {
		if b.State != engine.StateReady || b.Change != nil {
			t.Errorf("%s is %s (%s), %+v", b.ID, b.State, b.Err, b.Change)
		}
	}
	all := h.living()
	if len(all) != 2 || all[0].spec.Model.Binary != m.Binary || all[1].spec.Model.Binary != m.Binary {
		t.Errorf("%d engines are left, want 2 of %s", len(all), m.Binary)
	}
}

func (h *house) living() (all []*fakeProcess) {
	for _, p := range h.runner.all() {
		if p.alive() {
			all = append(all, p)
		}
	}
	return all
}
