package swap_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/update/install"
	"viiwork/update/swap"
)

// TestImagesThatNobodyGoesBackToAreForgotten, and no others.
func TestImagesThatNobodyGoesBackToAreForgotten(t *testing.T) {
	for name, c := range map[string]struct {
		previous *swap.Kept
		bad      bool
		gone     string // a name that is no more
	}{
		"the one before the old one":        {previous: &swap.Kept{Version: "v0.9.0", Image: "sha256:older"}, gone: "viiwork-node:v0.9.0"},
		"not the new one, had it been here": {previous: &swap.Kept{Version: "v1.1.0", Image: newImage}},
		"not the old one":                   {previous: &swap.Kept{Version: "v0.9.0", Image: oldImage}},
		"a bad one":                         {bad: true, gone: "viiwork-node:v1.1.0"},
		"not a bad one that was here":       {previous: &swap.Kept{Version: "v1.1.0", Image: newImage}, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, dir := newDaemon(t), t.TempDir()
				d.begin(dir)
				if err := swap.Remember(dir, swap.State{Previous: c.previous}); err != nil {
					t.Fatal(err)
				}
				for tag, id := range map[string]string{"viiwork-node:v0.9.0": "sha256:older", "viiwork-node:v1.1.0": newImage} {
					d.tags[tag] = id
				}
				if c.bad {
					d.images[newImage] = bad["serves, but no completion"].is
				}
				if err := swap.Run(t.Context(), d.config(dir)); err != nil {
					t.Fatal(err)
				}
				for _, tag := range []string{"viiwork-node:v0.9.0", "viiwork-node:v1.1.0"} {
					if (d.tags[tag] == "") != (tag == c.gone) {
						t.Errorf("names of images: %v", d.tags)
					}
				}
			})
		})
	}
}

// TestBadVersionsAreRememberedOnce, the newest of them, and not when they have come to hold.
func TestBadVersionsAreRememberedOnce(t *testing.T) {
	for _, good := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			d, dir := newDaemon(t), t.TempDir()
			d.begin(dir)
			var s swap.State
			for i := range 31 {
				s.Bad = append(s.Bad, install.Bad{Version: fmt.Sprintf("v0.%d.0", i)})
			}
			s.Bad = append(s.Bad, install.Bad{Version: "v1.1.0"})
			want := 31
			if !good {
				s.Bad, want = append(s.Bad, install.Bad{Version: "v0.31.0"}), 32
				d.images[newImage] = bad["serves, but no completion"].is
			}
			if err := swap.Remember(dir, s); err != nil {
				t.Fatal(err)
			}
			if err := swap.Run(t.Context(), d.config(dir)); err != nil {
				t.Fatal(err)
			}
			s, err := swap.At(dir).State()
			times := 0
			for _, b := range s.Bad {
				if b.Version == "v1.1.0" {
					times++
				}
			}
			if err != nil || len(s.Bad) != want || (times == 1) == good || !good && s.Bad[31].Version != "v1.1.0" {
				t.Errorf("good %v: %d bad ones, this one %d times, %v: %v", good, len(s.Bad), times, s.Bad, err)
			}
		})
	}
}

// TestTwoHelpersDoNotWorkOnOnePlan.
func TestTwoHelpersDoNotWorkOnOnePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, dir := newDaemon(t), t.TempDir()
		d.begin(dir)
		time.AfterFunc(10*time.Second, func() {
			acts := d.acts
			if err := swap.Run(t.Context(), d.config(dir)); err == nil || d.acts != acts {
				t.Errorf("the second one: %v, %d acts", err, d.acts-acts)
			}
		})
		if err := swap.Run(t.Context(), d.config(dir)); err != nil || !last(t, dir).Good {
			t.Error(err)
		}
	})
}

// TestHelperRemovesItselfAndNoStranger of its name.
func TestHelperRemovesItselfAndNoStranger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, dir := newDaemon(t), t.TempDir()
		d.begin(dir)
		d.mu.Lock()
		delete(d.vessels, "made1")
		d.put("theirs", swap.Box{Name: "viiwork.swap", Image: "sha256:theirs"}, true)
		d.mu.Unlock()
		if err := swap.Resume(t.Context(), d.config(dir)); err == nil {
			t.Error("a stranger's container is started for a helper")
		}
		if err := swap.Run(t.Context(), d.config(dir)); err != nil {
			t.Fatal(err)
		}
		if d.vessels["theirs"] == nil {
			t.Error("a stranger's container was removed")
		}
	})
}

// TestNameOfTheImageMovesOnlyWhereItStandsForTheOldOne, and says no version: what is made from it later is no older one.
func TestNameOfTheImageMovesOnlyWhereItStandsForTheOldOne(t *testing.T) {
	for name, moves := range map[string]bool{
		"viiwork:latest": true, "registry.example:5000/viiwork": true, "viiwork:v1.0.0": false, "viiwork@sha256:0a": false, "sha256:old": false,
		"viiwork:elsewhere": false, "viiwork:unknown": false, "": false,
	} {
		d, dir := newDaemon(t), t.TempDir()
		for _, tag := range []string{"registry.example:5000/viiwork", "viiwork:v1.0.0", "viiwork@sha256:0a"} {
			d.tags[tag] = oldImage
		}
		d.tags["viiwork:elsewhere"] = "sha256:new"
		own := self()
		own.ImageName = name
		d.beginAs(dir, own)
		p, err := swap.At(dir).Plan()
		if err != nil || (p.Tag == name) != moves && name != "" || !moves && p.Tag != "" {
			t.Errorf("%s: moves %q, %v", name, p.Tag, err)
		}
	}
}

// TestOneGoesBackOnlyToWhatWasThereBefore.
func TestOneGoesBackOnlyToWhatWasThereBefore(t *testing.T) {
	for name, c := range map[string]struct {
		previous *swap.Kept
		from     string
	}{
		"nothing was":       {nil, "v1.0.0"},
		"it runs already":   {&swap.Kept{Version: "v1.0.0", Image: newImage}, "v1.0.0"},
		"its image is gone": {&swap.Kept{Version: "v1.1.0", Image: "sha256:gone"}, "v1.0.0"},
	} {
		d, dir := newDaemon(t), t.TempDir()
		if err := swap.Remember(dir, swap.State{Previous: c.previous}); err != nil {
			t.Fatal(err)
		}
		err := swap.Begin(t.Context(), d.config(dir), swap.Order{Self: self(), From: c.from})
		if p, _ := swap.At(dir).Plan(); !errors.Is(err, swap.ErrRefused) || p != nil || d.acts != 0 {
			t.Errorf("%s: %v, %d acts", name, err, d.acts)
		}
	}
}

// TestHelperOfAnEarlierPlanMakesRoom, a stranger's container does not.
func TestHelperOfAnEarlierPlanMakesRoom(t *testing.T) {
	for _, role := range []string{"helper", ""} {
		d, dir := newDaemon(t), t.TempDir()
		if err := swap.Remember(dir, swap.State{Previous: &swap.Kept{Version: "v1.1.0", Image: newImage}}); err != nil {
			t.Fatal(err)
		}
		d.put("earlier", swap.Box{Name: "viiwork.swap", Labels: map[string]string{"viiwork.swap": "another", "viiwork.swap.role": role}}, false)
		err := swap.Begin(t.Context(), d.config(dir), swap.Order{Self: self(), From: "v1.0.0"})
		made := d.vessels["made1"]
		switch p, _ := swap.At(dir).Plan(); {
		case role == "helper" && (err != nil || d.vessels["earlier"] != nil || made == nil || !made.Running || p.Watch != 60):
			t.Errorf("an earlier helper: %v, containers %v", err, d.names())
		case role == "" && (!errors.Is(err, swap.ErrRefused) || d.vessels["earlier"] == nil || made != nil || p != nil):
			t.Errorf("a stranger: %v, containers %v", err, d.names())
		}
	}
}
