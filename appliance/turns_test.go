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

// TestReloadPassesOverWhatDoesNotComeBack, whether that took too long or failed; what is on its way keeps its turn.
func TestReloadPassesOverWhatDoesNotComeBack(t *testing.T) {
	for name, c := range map[string]struct {
		change *engine.Change
		after  time.Duration
		looked bool // a look was due meanwhile
		warned int
		want   []string
	}{
		"it loads":              {&engine.Change{State: engine.StateLoading}, time.Minute, true, 0, []string{"new", "old", "old"}},
		"the old one finishes":  {&engine.Change{State: engine.StateDraining}, 9 * time.Minute, true, 0, []string{"new", "old", "old"}},
		"it loads for too long": {&engine.Change{State: engine.StateLoading}, 9 * time.Minute, true, 1, []string{"new", "new", "old"}},
		"it failed":             {&engine.Change{State: engine.StateFailed}, time.Second, true, 1, []string{"new", "new", "old"}},
		"it failed just now":    {&engine.Change{State: engine.StateFailed}, 0, false, 0, []string{"new", "new", "old"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var turns appliance.Turns
			told := turns.Want(fleetOf("old", "old", "old"), nil)
			told = turns.Want(fleetOf("new", "new", "new"), states(told))
			now := states(told)
			now[0].Backends[0].Change = c.change
			time.Sleep(c.after)
			if c.looked && turns.Due(now) {
				t.Errorf("%s: the next one has its turn by itself", name)
			}
			if got := turns.Warning(); len(got) != c.warned {
				t.Errorf("%s: warned of %v", name, got)
			}
			if got := imagesIn(turns.Want(fleetOf("new", "new", "new"), now)); !slices.Equal(got, c.want) {
				t.Errorf("%s: after a reload %v, want %v", name, got, c.want)
			}
		})
	}
}

// TestModelOnItsWayMayGoBack: it is not put behind those that wait.
func TestModelOnItsWayMayGoBack(t *testing.T) {
	var turns appliance.Turns
	told := turns.Want(fleetOf("old", "old"), nil)
	told = turns.Want(fleetOf("new", "new"), states(told))
	now := states(told)
	now[0].Backends[0].Change = &engine.Change{State: engine.StateLoading}
	if got := imagesIn(turns.Want(fleetOf("old", "new"), now)); !slices.Equal(got, []string{"old", "old"}) {
		t.Errorf("%v", got)
	}
}

// TestTurnIsOverWhenAllOfTheModelHasChanged: each backend has its own time for it, and what other models do is nothing to it.
func TestTurnIsOverWhenAllOfTheModelHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns appliance.Turns
		told := turns.Want(fleetOf("old", "old", "old"), nil)
		before := states(told)
		told = turns.Want(fleetOf("new", "new", "new"), before)
		if turns.Due(before) {
			t.Error("it is due before the engine has heard of the first one's")
		}
		now := states(told)
		now[0].Backends = append(now[0].Backends, engine.BackendState{State: engine.StateReady, Change: &engine.Change{State: engine.StateLoading}})
		now[2].Backends[0].Change = &engine.Change{State: engine.StateDraining}
		for _, c := range []struct {
			pass   time.Duration
			warned int
		}{{3 * time.Minute, 0}, {2 * time.Minute, 1}} { // of four
			if time.Sleep(c.pass); turns.Due(now) || len(turns.Warning()) != c.warned {
				t.Errorf("%v later: warned of %v", c.pass, turns.Warning())
			}
		}
		now[0].Backends[1].Change.State = engine.StateDraining
		if turns.Due(now) || len(turns.Warning()) != 0 {
			t.Errorf("it serves, and warned is of %v", turns.Warning())
		}
		now[0].Backends[1].Change = nil
		if !turns.Due(now) || !turns.Due(now[1:]) {
			t.Error("the next one's turn does not come")
		}
	})
}
