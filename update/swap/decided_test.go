package swap_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/update/swap"
)

// TestWhatIsDecidedStays: a helper that was killed once it was decided does not judge again, whatever the new version does by then.
func TestWhatIsDecidedStays(t *testing.T) {
	good := behaviour{version: "v1.1.0", ready: 2}
	for name, c := range map[string]struct {
		at, then behaviour
		want     map[string]string
	}{
		"forward": {good, behaviour{version: "v1.1.0", mute: true}, wentForward},
		"back":    {behaviour{version: "v1.1.0", ready: 1}, good, wentBack},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, dir := newDaemon(t), t.TempDir()
				d.begin(dir)
				d.images[newImage] = c.at
				ctx, kill := context.WithCancel(t.Context())
				d.before = func(int) error {
					if p, err := swap.At(dir).Plan(); err == nil && p != nil && (p.Good || p.Failed != "") {
						kill()
						return errKilled
					}
					return nil
				}
				if err := swap.Run(ctx, d.config(dir)); err == nil {
					t.Fatal("it was not killed")
				}
				d.before, d.images[newImage] = nil, c.then
				begun := time.Now()
				if err := swap.Run(t.Context(), d.config(dir)); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took > 10*time.Second {
					t.Errorf("it judged again, for %v", took)
				}
				if o := last(t, dir); o.Good != (name == "forward") || !maps.Equal(d.names(), c.want) {
					t.Errorf("outcome %+v, containers %v", o, d.names())
				}
			})
		})
	}
}

// TestWhatIsDecidedStaysHoweverOftenItsHelperIsKilled: only the way to a decision has an end.
func TestWhatIsDecidedStaysHoweverOftenItsHelperIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, dir := newDaemon(t), t.TempDir()
		d.begin(dir)
		for range 30 {
			ctx, kill := context.WithCancel(t.Context())
			d.before = func(int) error {
				if p, err := swap.At(dir).Plan(); err == nil && p.Good {
					kill()
					return errKilled
				}
				return nil
			}
			if swap.Run(ctx, d.config(dir)) == nil {
				t.Fatal("it was not killed")
			}
		}
		d.before = nil
		if err := swap.Run(t.Context(), d.config(dir)); err != nil || !last(t, dir).Good || !maps.Equal(d.names(), wentForward) {
			t.Errorf("%v, containers %v", err, d.names())
		}
	})
}

// TestNobodyTakesBackWhatIsDecided, nor changes why it was taken back.
func TestNobodyTakesBackWhatIsDecided(t *testing.T) {
	for _, good := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			d, dir := newDaemon(t), t.TempDir()
			d.begin(dir)
			if d.images[newImage] = (behaviour{version: "v1.1.0", ready: 2}); !good {
				d.images[newImage] = bad["answers nothing"].is
			}
			asked := 0
			d.before = func(int) error {
				if p, err := swap.At(dir).Plan(); err == nil && p != nil && (p.Good || p.Failed != "") {
					asked++
					if err := swap.At(dir).Stop("a person took it back"); (err != nil) != good || good && !errors.Is(err, swap.ErrRefused) {
						t.Errorf("good %v: %v", good, err)
					}
					if now, err := swap.At(dir).Plan(); err != nil || now.Good != p.Good || now.Failed != p.Failed {
						t.Errorf("good %v: the plan says %+v, %v", good, now, err)
					}
				}
				return nil
			}
			if err := swap.Run(t.Context(), d.config(dir)); err != nil {
				t.Fatal(err)
			}
			if o := last(t, dir); asked == 0 || o.Good != good || strings.Contains(o.Why, "a person") {
				t.Errorf("asked %d times: %+v", asked, o)
			}
		})
	}
}

// starts are the images of what was started, and of what was stopped how.
type starts struct {
	*daemon
	images []string
	stops  []string
}

func (s *starts) StopBox(ctx context.Context, id string, grace time.Duration) error {
	if is, err := s.LookAt(ctx, id); err == nil {
		s.stops = append(s.stops, is.Image+" within "+grace.String())
	}
	return s.daemon.StopBox(ctx, id, grace)
}

func (s *starts) StartBox(ctx context.Context, id string) error {
	if is, err := s.LookAt(ctx, id); err == nil {
		s.images = append(s.images, is.Image)
	}
	return s.daemon.StartBox(ctx, id)
}

// TestTakenBackWhileTheOldOneEndsNothingNewIsStarted: a drain is long enough to change one's mind.
func TestTakenBackWhileTheOldOneEndsNothingNewIsStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, dir := newDaemon(t), t.TempDir()
		d.begin(dir)
		s := &starts{daemon: d}
		cfg := d.config(dir)
		cfg.Power = s
		d.before = func(n int) error {
			if n == 2 { // the old one's end
				return swap.At(dir).Stop("a person took it back")
			}
			return nil
		}
		if err := swap.Run(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if o := last(t, dir); o.Why != "a person took it back" || !maps.Equal(d.names(), wentBack) || !slices.Equal(s.images, []string{oldImage}) {
			t.Errorf("outcome %+v, containers %v, started %v", o, d.names(), s.images)
		}
	})
}

// TestActThatFailsOnceIsTriedAgain, while Docker answers.
func TestActThatFailsOnceIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, dir := newDaemon(t), t.TempDir()
		d.begin(dir)
		d.before = func(n int) error {
			if n%2 == 1 && n < 10 { // each act as far as the new one's start
				return errors.New("device or resource busy")
			}
			return nil
		}
		if err := swap.Run(t.Context(), d.config(dir)); err != nil {
			t.Fatal(err)
		}
		if o := last(t, dir); !o.Good || !maps.Equal(d.names(), wentForward) {
			t.Errorf("outcome %+v, containers %v", o, d.names())
		}
	})
}

// TestGapIsFromTheOldOnesEndToTheNewOnesAnswer, whatever lies between.
func TestGapIsFromTheOldOnesEndToTheNewOnesAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, dir := newDaemon(t), t.TempDir()
		d.begin(dir)
		takes := map[int]time.Duration{1: time.Minute, 2: 7 * time.Second, 3: time.Second, 5: 2 * time.Second} // make, stop, a name, start
		d.before = func(n int) error { time.Sleep(takes[n]); return nil }
		if err := swap.Run(t.Context(), d.config(dir)); err != nil {
			t.Fatal(err)
		}
		if o := last(t, dir); o.Drain != 7 || o.Swap != 3 {
			t.Errorf("drained %v s, and %v s nobody answered; want 7 and 3", o.Drain, o.Swap)
		}
	})
}

// TestWhatAnEarlierSwapLeftIsTakenAway, unless it runs: somebody may have found a use for it.
func TestWhatAnEarlierSwapLeftIsTakenAway(t *testing.T) {
	for _, runs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d, dir := newDaemon(t), t.TempDir()
			d.begin(dir)
			d.put("earlier", swap.Box{Name: "viiwork.next", Image: "sha256:other", Labels: map[string]string{"viiwork.swap": "earlier"}}, runs)
			if err := swap.Run(t.Context(), d.config(dir)); err != nil {
				t.Fatal(err)
			}
			if o := last(t, dir); o.Good == runs || runs && !strings.Contains(o.Why, "is taken by container earlier") || (d.vessels["earlier"] != nil) != runs {
				t.Errorf("runs %v: %+v, %v", runs, o, d.names())
			}
		})
	}
}

// TestNewOneThatNobodyStartsAgainIsGivenUpAtOnce: without a policy of Docker's there is nothing to wait for.
func TestNewOneThatNobodyStartsAgainIsGivenUpAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, dir := newDaemon(t), t.TempDir()
		if err := swap.Remember(dir, swap.State{Previous: &swap.Kept{Version: "v1.1.0", Image: newImage}}); err != nil {
			t.Fatal(err)
		}
		own := self()
		own.Restart = "no"
		err := swap.Begin(t.Context(), d.config(dir), swap.Order{Self: own, From: "v1.0.0", Node: "attic", Patience: time.Hour, Watch: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		d.images[newImage] = behaviour{version: "v1.1.0", mute: true, diesIn: time.Second}
		begun := time.Now()
		if err := swap.Run(t.Context(), d.config(dir)); err != nil {
			t.Fatal(err)
		}
		if o := last(t, dir); o.Good || !strings.Contains(o.Why, "ends as soon as it is started, the last time with status 3") || time.Since(begun) > time.Minute {
			t.Errorf("after %v: %+v", time.Since(begun), o)
		}
	})
}
