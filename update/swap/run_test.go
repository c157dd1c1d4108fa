package swap_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/update/install"
	"viiwork/update/swap"
)

var (
	wentForward = map[string]string{"viiwork": newImage + " runs", "viiwork-attic-m-0": "sha256:engine runs"}
	wentBack    = map[string]string{"viiwork": oldImage + " runs", "viiwork-attic-m-0": "sha256:engine runs"}
)

// bad are versions that do not hold, each in a way of its own.
var bad = map[string]struct {
	is   behaviour
	want string
}{
	"answers nothing":           {behaviour{version: "v1.1.0", mute: true}, "does not answer"},
	"has fewer backends":        {behaviour{version: "v1.1.0", ready: 1}, "m has 1 of 2 backends"},
	"serves, but no completion": {behaviour{version: "v1.1.0", ready: 2, fails: true}, "answered before and does not now"},
	"ends after a while":        {behaviour{version: "v1.1.0", ready: 2, diesIn: 20 * time.Second}, "it ended by itself, with status 3"},
	"ends at once":              {behaviour{version: "v1.1.0", mute: true, diesIn: time.Second}, "it ends as soon as it is started"},
	"cannot be started":         {behaviour{version: "v1.1.0", unstarts: true}, "could not select device driver"},
	"is another than it says":   {behaviour{version: "v0.9.0", ready: 2}, "what answers is v0.9.0"},
}

func last(t *testing.T, dir string) install.Outcome {
	t.Helper()
	s, err := swap.At(dir).State()
	if err != nil || s.Last == nil {
		t.Fatalf("state %+v, %v", s, err)
	}
	if p, err := swap.At(dir).Plan(); p != nil || err != nil {
		t.Errorf("the plan is there still: %+v, %v", p, err)
	}
	return *s.Last
}

func TestNewContainerTakesTheOldOnesPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, dir := newDaemon(t), t.TempDir()
		d.begin(dir)
		if err := swap.Run(t.Context(), d.config(dir)); err != nil {
			t.Fatal(err)
		}
		if got := d.names(); !maps.Equal(got, wentForward) {
			t.Errorf("containers %v", got)
		}
		if o := last(t, dir); !o.Good || o.Version != "v1.1.0" || o.From != "v1.0.0" || o.Why+o.Fault != "" {
			t.Errorf("outcome %+v", o)
		}
		if d.tags["viiwork:latest"] != newImage || d.tags["viiwork-node:v1.0.0"] != oldImage {
			t.Errorf("names of images: %v", d.tags)
		}
		if s, err := swap.At(dir).State(); err != nil || s.Previous == nil || *s.Previous != (swap.Kept{Version: "v1.0.0", Image: oldImage}) || len(s.Bad) != 0 {
			t.Errorf("one can go back to %+v, bad are %v: %v", s.Previous, s.Bad, err)
		}
	})
}

func TestBadVersionsAreTakenBack(t *testing.T) {
	for name, c := range bad {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, dir := newDaemon(t), t.TempDir()
				d.begin(dir)
				d.images[newImage] = c.is
				begun := time.Now()
				if err := swap.Run(t.Context(), d.config(dir)); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took > 150*time.Second { // the patience, and half a minute of watching
					t.Errorf("it took %v", took)
				}
				if got := d.names(); !maps.Equal(got, wentBack) {
					t.Errorf("containers %v", got)
				}
				if o := last(t, dir); o.Good || !strings.Contains(o.Why, c.want) || o.Fault != "" {
					t.Errorf("outcome %+v, want %q", o, c.want)
				}
				if d.tags["viiwork:latest"] != oldImage {
					t.Error("the image's name has moved")
				}
				if s, err := swap.At(dir).State(); err != nil || len(s.Bad) != 1 || s.Bad[0].Version != "v1.1.0" || !strings.Contains(s.Bad[0].Why, c.want) {
					t.Errorf("bad are %v: %v", s.Bad, err)
				}
			})
		})
	}
}

var errKilled = errors.New("killed")

// TestKilledAtAnyActItGoesOn kills the helper before or after each act, and with Docker's restart as well; the next one goes on,
// and no two nodes ever run.
func TestKilledAtAnyActItGoesOn(t *testing.T) {
	for name, is := range map[string]struct {
		new  behaviour
		want map[string]string
	}{
		"good": {behaviour{version: "v1.1.0", ready: 2}, wentForward},
		"bad":  {behaviour{version: "v1.1.0", ready: 2, fails: true}, wentBack},
	} {
		for _, how := range []string{"before", "after", "after, with Docker", "before, with Docker", "after, with a Docker that is killed", "before, with a Docker that is killed"} {
			t.Run(name+" "+how, func(t *testing.T) {
				cuts := 0
				for at := 1; ; at++ {
					cut := false
					synctest.Test(t, func(t *testing.T) { cut = killAt(t, at, how, is.new, is.want) })
					if !cut {
						break
					}
					cuts++
				}
				if cuts < 6 {
					t.Errorf("only %d acts were cut", cuts)
				}
			})
		}
	}
}

func killAt(t *testing.T, at int, how string, new behaviour, want map[string]string) (cut bool) {
	d, dir := newDaemon(t), t.TempDir()
	d.begin(dir)
	d.images[newImage] = new
	want = maps.Clone(want)
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	die := func(n int) error {
		if n != at {
			return nil
		}
		cut = true
		if strings.Contains(how, "Docker") {
			d.restart(strings.Contains(how, "killed"))
			want["viiwork-attic-m-0"] = "sha256:engine" // Docker ends what it does not keep alive; that is not the swap's doing
		}
		kill()
		return errKilled
	}
	if strings.HasPrefix(how, "before") {
		d.before = die
	} else {
		d.after = die
	}
	err := swap.Run(ctx, d.config(dir))
	if p, odd := swap.At(dir).Plan(); odd != nil || (err == nil) != (p == nil) {
		t.Fatalf("act %d: %v, and the plan is %+v, %v", at, err, p, odd)
	}
	if err == nil && strings.Contains(how, "killed") { // all was done: what comes after is not the swap's
		return cut
	}
	d.running()
	if err := swap.Run(t.Context(), d.config(dir)); err != nil {
		t.Fatalf("act %d, the next helper: %v", at, err)
	}
	got := d.names()
	delete(got, "viiwork.swap") // the helper's own: the next plan removes it, where it was killed at its last act
	if !maps.Equal(got, want) {
		t.Errorf("act %d: containers %v, want %v", at, got, want)
	}
	if o := last(t, dir); o.Good == new.fails || o.Fault != "" {
		t.Errorf("act %d: outcome %+v", at, o)
	}
	return cut
}

// TestHelperThatEndsAgainAndAgainGoesBack: what keeps it from its end may be the new version.
func TestHelperThatEndsAgainAndAgainGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, dir := newDaemon(t), t.TempDir()
		d.begin(dir)
		for range 40 {
			ctx, kill := context.WithTimeout(t.Context(), 5*time.Second) // the watch alone takes longer
			err := swap.Run(ctx, d.config(dir))
			kill()
			if err == nil {
				break
			}
		}
		if got := d.names(); !maps.Equal(got, wentBack) {
			t.Errorf("containers %v", got)
		}
		if o := last(t, dir); o.Good || !strings.Contains(o.Why, "starts of its helper") {
			t.Errorf("outcome %+v", o)
		}
	})
}

// TestPersonTakesItBack while it is watched, and not once it is decided.
func TestPersonTakesItBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, dir := newDaemon(t), t.TempDir()
		if err := swap.At(dir).Stop("no"); !errors.Is(err, swap.ErrRefused) {
			t.Errorf("without a plan: %v", err)
		}
		d.begin(dir)
		begun := time.Now()
		go func() {
			time.Sleep(10 * time.Second)
			if err := swap.At(dir).Stop("a person took it back"); err != nil {
				t.Error(err)
			}
		}()
		if err := swap.Run(t.Context(), d.config(dir)); err != nil {
			t.Fatal(err)
		}
		if o := last(t, dir); o.Good || o.Why != "a person took it back" || !maps.Equal(d.names(), wentBack) {
			t.Errorf("outcome %+v, containers %v", o, d.names())
		}
		if took := time.Since(begun); took > 12*time.Second {
			t.Errorf("it was watched on, for %v", took)
		}
	})
}

// TestImageThatIsAnotherByNowIsNotStarted: the helper holds it against the plan once more, before anything is stopped.
func TestImageThatIsAnotherByNowIsNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, dir := newDaemon(t), t.TempDir()
		d.begin(dir)
		d.content[newImage] = []string{"sha256:c"}
		before := d.vessels["node"].Started
		if err := swap.Run(t.Context(), d.config(dir)); err != nil {
			t.Fatal(err)
		}
		if o := last(t, dir); o.Good || !strings.Contains(o.Why, "not the one that was proved") {
			t.Errorf("outcome %+v", o)
		}
		if !maps.Equal(d.names(), wentBack) || !d.vessels["node"].Started.Equal(before) {
			t.Errorf("the old one was touched: %v", d.names())
		}
	})
}

// TestStrangersKeepTheirNames: a container of somebody else's in the way ends the swap before anything is stopped, or undoes it.
func TestStrangersKeepTheirNames(t *testing.T) {
	for _, end := range []string{".next", ".prev"} {
		synctest.Test(t, func(t *testing.T) {
			d, dir := newDaemon(t), t.TempDir()
			d.begin(dir)
			d.put("theirs", swap.Box{Name: "viiwork" + end, Image: "sha256:theirs"}, false)
			before := d.vessels["node"].Started
			if err := swap.Run(t.Context(), d.config(dir)); err != nil {
				t.Fatal(err)
			}
			want := maps.Clone(wentBack)
			want["viiwork"+end] = "sha256:theirs"
			if o := last(t, dir); o.Good || !strings.Contains(o.Why, "is taken by container theirs") || !maps.Equal(d.names(), want) {
				t.Errorf("outcome %+v, containers %v", o, d.names())
			}
			if end == ".next" && !d.vessels["node"].Started.Equal(before) {
				t.Error("the old one was stopped before the new one was made")
			}
		})
	}
}

// TestOldContainerThatIsGoneLeavesTheNewOne: a new version that may be bad is better than no node.
func TestOldContainerThatIsGoneLeavesTheNewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, dir := newDaemon(t), t.TempDir()
		d.begin(dir)
		d.images[newImage] = behaviour{version: "v1.1.0", ready: 1}
		d.before = func(n int) error {
			if n == 5 { // the new one's start
				d.mu.Lock()
				delete(d.vessels, "node")
				d.mu.Unlock()
			}
			return nil
		}
		if err := swap.Run(t.Context(), d.config(dir)); err != nil {
			t.Fatal(err)
		}
		if o := last(t, dir); o.Good || !strings.Contains(o.Fault, "the old container is gone") || !maps.Equal(d.names(), wentForward) {
			t.Errorf("outcome %+v, containers %v", o, d.names())
		}
	})
}

// TestPlanIsForTheNodesUserAlone: it holds the environment, and with it secrets.
func TestPlanIsForTheNodesUserAlone(t *testing.T) {
	d, dir := newDaemon(t), t.TempDir()
	d.begin(dir)
	info, err := os.Stat(swap.PlanFile(dir))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func FuzzPlan(f *testing.F) {
	good := fmt.Sprintf(`{"id":%q,"version":"v1","image":"i","old":"o","old_image":"p","name":"n","new":{"Image":"i","Labels":{"viiwork.swap":%[1]q}},"runs_left":3}`, strings.Repeat("0a", 16))
	for _, text := range []string{good, strings.Replace(good, `"i","old"`, `"j","old"`, 1), strings.Replace(good, `swap":"0a`, `swap":"0b`, 1), "{}", "", "null", "[", strings.Replace(good, "3}", "-1}", 1), strings.Replace(good, "3}", `3,"good":true,"failed":"x"}`, 1)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := swap.Remember(dir, swap.State{}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(swap.PlanFile(dir), text, 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := swap.At(dir).Plan()
		if err == nil && p != nil && (p.Name == "" || p.Old == "" || p.New.Image != p.Image || p.New.Labels["viiwork.swap"] != p.ID || p.Good && p.Failed != "" || p.Runs < 0) {
			t.Errorf("taken: %+v", p)
		}
		if err == nil && !json.Valid(text) {
			t.Errorf("taken: %q", text)
		}
	})
}
