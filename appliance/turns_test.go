package appliance_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance"
	"viiwork/engine"
)

// fleetOf are models of these images, in order: a, b, c …
func fleetOf(images ...string) (all []engine.Model) {
	for i, image := range images {
		all = append(all, engine.Model{Name: string(rune('a' + i)), Image: image, StartupTimeout: time.Minute})
	}
	return all
}

// states are models as the engine has them, all in one state but those that are named.
func states(models []engine.Model, down ...string) (all []engine.ModelState) {
	for _, m := range models {
		s := engine.StateReady
		if slices.Contains(down, m.Name) {
			s = engine.StateLoading
		}
		all = append(all, engine.ModelState{Model: m, Backends: []engine.BackendState{{State: s}}})
	}
	return all
}

func imagesIn(models []engine.Model) (all []string) {
	for _, m := range models {
		all = append(all, m.Image)
	}
	return all
}

// TestModelsChangeTheirImageInTurn: one is down at a time, and one that does not come back keeps the others as they are.
func TestModelsChangeTheirImageInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns appliance.Turns
		told := turns.Want(fleetOf("old", "old", "old"), nil)
		told = turns.Want(fleetOf("new", "new", "new"), states(told))
		if got := imagesIn(told); !slices.Equal(got, []string{"new", "old", "old"}) {
			t.Fatalf("at first %v", got)
		}
		if turns.Due(states(told, "a")) {
			t.Error("the next one has its turn while the first loads")
		}
		// The same again, as a second SIGHUP would: nobody else's turn comes by it.
		if got := imagesIn(turns.Want(fleetOf("new", "new", "new"), states(told, "a"))); !slices.Equal(got, []string{"new", "old", "old"}) {
			t.Errorf("after a reload meanwhile %v", got)
		}
		if !turns.Due(states(told)) {
			t.Fatal("the next one's turn does not come")
		}
		told = turns.Next(states(told))
		if got := imagesIn(told); !slices.Equal(got, []string{"new", "new", "old"}) {
			t.Fatalf("then %v", got)
		}
		time.Sleep(10 * time.Minute)
		if turns.Due(states(told, "b")) || len(turns.Warning()) != 1 {
			t.Errorf("one that does not come back: %v", turns.Warning())
		}
		told = turns.Want(fleetOf("new", "old", "new"), states(told, "b")) // its owner gives it the old one back
		if got := imagesIn(told); !slices.Equal(got, []string{"new", "old", "new"}) || len(turns.Warning()) != 0 {
			t.Errorf("at last %v, %v", got, turns.Warning())
		}
	})
}

// TestModelThatServesNothingWaitsForNobody, nor does one that is new, or changed in other ways.
func TestModelThatServesNothingWaitsForNobody(t *testing.T) {
	var turns appliance.Turns
	told := turns.Want(fleetOf("old", "old", "old"), nil)
	next := fleetOf("new", "new", "new", "new")
	next[2].Context = 4096
	told = turns.Want(next, states(told, "b"))
	if got := imagesIn(told); !slices.Equal(got, []string{"new", "new", "new", "new"}) {
		t.Errorf("%v", got)
	}
	if turns.Due(states(told)) {
		t.Error("a turn for nobody")
	}
}

// TestOldEngineThatFinishesALongStreamIsNoFault: the next model waits for its end, and nobody is warned.
func TestOldEngineThatFinishesALongStreamIsNoFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns appliance.Turns
		told := turns.Want(fleetOf("old", "old"), nil)
		told = turns.Want(fleetOf("new", "new"), states(told))
		now := states(told)
		now[0].Backends[0].Change = &engine.Change{State: engine.StateDraining}
		time.Sleep(9 * time.Minute)
		if turns.Due(now) || len(turns.Warning()) != 0 {
			t.Errorf("warned: %v", turns.Warning())
		}
		now[0].Backends[0].Change = &engine.Change{State: engine.StateLoading}
		if turns.Due(now) || len(turns.Warning()) != 1 {
			t.Error("one that loads for so long is not told")
		}
	})
}
