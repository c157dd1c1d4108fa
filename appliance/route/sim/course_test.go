package sim_test

import (
	"math/rand/v2"
	"testing"

	"viiwork/appliance/route/sim"
)

// TestACourseStaysInItsRoom: however small a model's context is, as long as it is enough for the work, no turn asks for
// more, and sessions still grow, are summed up and end.
func TestACourseStaysInItsRoom(t *testing.T) {
	for _, scale := range []float64{1, 0.25, 0.02} {
		w := sim.UsualWork()
		w.Scale = scale
		for _, more := range []int{0, 5000} {
			w.Room = w.LeastRoom() + more
			kinds := map[sim.Kind]int{}
			c := sim.NewCourse(w, rand.New(rand.NewPCG(1, uint64(more))))
			turn := c.Begin()
			for range 20_000 {
				kinds[turn.Kind]++
				if turn.Prompt+turn.Output > w.Room+3 { // three figures are rounded
					t.Fatalf("scale %v, room %d: %+v", scale, w.Room, turn)
				}
				if turn.Added < 1 || turn.Added > turn.Prompt || turn.Output < 1 || turn.Think < 0 {
					t.Fatalf("%+v", turn)
				}
				turn = c.Next(turn.Prompt + turn.Output)
			}
			if kinds[sim.First] < 100 || kinds[sim.Summary] < 100 || kinds[sim.Rewritten] != kinds[sim.Summary] || kinds[sim.Ordinary] < 2000 {
				t.Errorf("scale %v, room %d: %v", scale, w.Room, kinds)
			}
		}
	}
}

// TestThinkingCanBeLeftOut for those who want to see a fleet at its limit.
func TestThinkingCanBeLeftOut(t *testing.T) {
	w := sim.UsualWork()
	w.Think = 0
	c := sim.NewCourse(w, rand.New(rand.NewPCG(1, 1)))
	for turn, i := c.Begin(), 0; i < 1000; i++ {
		if turn.Think != 0 {
			t.Fatalf("%+v", turn)
		}
		turn = c.Next(turn.Prompt + turn.Output)
	}
}
