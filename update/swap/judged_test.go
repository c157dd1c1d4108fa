package swap_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/update/install"
	"viiwork/update/swap"
)

// TestVersionIsJudgedByWhatItIsInTheEnd: it has its time to load, may be busy, and may not answer for a moment.
func TestVersionIsJudgedByWhatItIsInTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		ages func(age time.Duration, is *behaviour)
		good bool
		want string
	}{
		"loads for long": {func(age time.Duration, is *behaviour) {
			if age < 100*time.Second {
				is.ready = 0
			}
		}, true, ""},
		"is busy at first": {func(age time.Duration, is *behaviour) { is.fails = age < 1500*time.Millisecond }, true, ""},
		"does not answer at times": {func(age time.Duration, is *behaviour) { // two looks of three
			is.mute = age > 5*time.Second && age%(600*time.Millisecond) < 400*time.Millisecond
		}, true, ""},
		"does not answer any more": {func(age time.Duration, is *behaviour) { is.mute = age > 5*time.Second }, false, "the node does not answer"},
		"loses a backend for a while": {func(age time.Duration, is *behaviour) {
			if age > 10*time.Second && age < 45*time.Second {
				is.ready = 1
			}
		}, true, ""},
		"loses a backend": {func(age time.Duration, is *behaviour) {
			if age > 10*time.Second {
				is.ready = 1
			}
		}, false, "m has 1 of 2 backends"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, dir := newDaemon(t), t.TempDir()
				d.begin(dir)
				d.images[newImage] = behaviour{version: "v1.1.0", ready: 2, ages: c.ages}
				begun := time.Now()
				if err := swap.Run(t.Context(), d.config(dir)); err != nil {
					t.Fatal(err)
				}
				if o := last(t, dir); o.Good != c.good || !strings.Contains(o.Why, c.want) {
					t.Errorf("after %v: %+v", time.Since(begun), o)
				}
				if took := time.Since(begun); took > 3*time.Minute || c.good && took < 30*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestPersonsWordEndsEachStage at once.
func TestPersonsWordEndsEachStage(t *testing.T) {
	for name, is := range map[string]behaviour{
		"it does not answer yet":        {version: "v1.1.0", mute: true},
		"no model answers yet":          {version: "v1.1.0", ready: 2, fails: true},
		"it is watched":                 {version: "v1.1.0", ready: 2},
		"it lacks a backend, and loads": {version: "v1.1.0", ready: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, dir := newDaemon(t), t.TempDir()
				d.begin(dir)
				d.images[newImage] = is
				begun := time.Now()
				time.AfterFunc(1500*time.Millisecond, func() {
					if err := swap.At(dir).Stop("a person took it back"); err != nil {
						t.Error(err)
					}
					if p, err := swap.At(dir).Plan(); err != nil || p.Stage != install.Returning {
						t.Errorf("the stage is %+v, %v", p, err)
					}
				})
				if err := swap.Run(t.Context(), d.config(dir)); err != nil {
					t.Fatal(err)
				}
				if o := last(t, dir); o.Good || o.Why != "a person took it back" || time.Since(begun) > 6*time.Second {
					t.Errorf("after %v: %+v", time.Since(begun), o)
				}
			})
		})
	}
}

// TestOldOneThatIsNotAsItWasIsTold: that it was taken back is no comfort then.
func TestOldOneThatIsNotAsItWasIsTold(t *testing.T) {
	for want, is := range map[string]behaviour{
		"the old version does not answer": {version: "v1.0.0", mute: true},
		"m has 1 of 2 backends":           {version: "v1.0.0", ready: 1},
		"what runs is v0.5.0":             {version: "v0.5.0", ready: 2},
		"": {version: "v1.0.0", ages: func(age time.Duration, is *behaviour) {
			if is.mute = age < 5*time.Second; age > time.Minute {
				is.ready = 2
			}
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			d, dir := newDaemon(t), t.TempDir()
			d.begin(dir)
			d.images[newImage], d.images[oldImage] = bad["serves, but no completion"].is, is
			if err := swap.Run(t.Context(), d.config(dir)); err != nil {
				t.Fatal(err)
			}
			if o := last(t, dir); o.Good || !strings.Contains(o.Fault, want) || want == "" && o.Fault != "" {
				t.Errorf("%q: %+v", want, o)
			}
		})
	}
}

// TestBothEndAsANodeEnds, with the time that one has to finish what it runs.
func TestBothEndAsANodeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, dir := newDaemon(t), t.TempDir()
		d.begin(dir)
		d.images[newImage] = bad["serves, but no completion"].is
		s := &starts{daemon: d}
		cfg := d.config(dir)
		cfg.Power = s
		if err := swap.Run(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if want := []string{oldImage + " within 45s", newImage + " within 45s"}; !slices.Equal(s.stops, want) {
			t.Errorf("stopped were %v, want %v", s.stops, want)
		}
	})
}

// TestDockerThatIsAwayOnTheWayBackIsWaitedFor: the old one is not given up.
func TestDockerThatIsAwayOnTheWayBackIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, dir := newDaemon(t), t.TempDir()
		d.begin(dir)
		d.images[newImage] = bad["serves, but no completion"].is
		cfg := d.config(dir)
		from := time.Now().Add(6 * time.Second) // two pauses between three tries, and the moment before a verdict, are five
		back := from.Add(50 * time.Second)
		cfg.Boxes = away{d, from, back}
		d.before = func(int) error {
			if now := time.Now(); now.After(from) && now.Before(back) {
				return errors.New("cannot connect to the Docker daemon")
			}
			if p, err := swap.At(dir).Plan(); err == nil && p != nil && p.Failed != "" {
				time.Sleep(2 * time.Second) // of each act on the way back: it is in the middle when Docker goes
			}
			return nil
		}
		for run := 1; swap.Run(t.Context(), cfg) != nil; run++ {
			if run > 3 {
				t.Fatal("it does not come to its end")
			}
		}
		if o := last(t, dir); o.Good || o.Fault != "" || !maps.Equal(d.names(), wentBack) {
			t.Errorf("%+v, containers %v", o, d.names())
		}
	})
}

// TestOldContainerThatIsGoneBeforeTheNewOneIsNamed leaves the new one under the name, running or with what keeps it from that.
func TestOldContainerThatIsGoneBeforeTheNewOneIsNamed(t *testing.T) {
	for _, unstarts := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d, dir := newDaemon(t), t.TempDir()
			d.begin(dir)
			d.images[newImage] = behaviour{version: "v1.1.0", ready: 2, unstarts: unstarts}
			d.before = func(n int) error {
				if n == 2 { // the old one's end
					d.mu.Lock()
					delete(d.vessels, "node")
					d.mu.Unlock()
				}
				return nil
			}
			if err := swap.Run(t.Context(), d.config(dir)); err != nil {
				t.Fatal(err)
			}
			o, got := last(t, dir), d.names()["viiwork"]
			if unstarts && (!strings.Contains(o.Fault, "the new one does not start") || got != newImage) || !unstarts && got != newImage+" runs" {
				t.Errorf("unstarts %v: %+v, containers %v", unstarts, o, d.names())
			}
		})
	}
}
