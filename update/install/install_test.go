package install_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"viiwork/update"
	"viiwork/update/install"
	"viiwork/update/updatetest"
)

func TestInstalledVersionIsOnTrialAndTheOldOneStays(t *testing.T) {
	w := newWorld(t)
	before := install.Before{PID: 7, Ready: map[string]int{"Qwen": 2}, Answered: []string{"Qwen"}}
	order := w.order()
	order.Before = func(context.Context) install.Before { return before }
	var acts []install.Act
	order.Said = func(p install.Progress) {
		if len(acts) == 0 || acts[len(acts)-1] != p.Act {
			acts = append(acts, p.Act)
		}
	}
	program := script(newVersion, "good")
	if err := w.open().Install(t.Context(), w.release(newVersion, program), order); err != nil {
		t.Fatal(err)
	}
	w.wantLinks(newVersion, oldVersion)
	w.wantNothingLeft(newVersion)
	path := w.open().Program(newVersion)
	stat, err := os.Stat(path)
	text, err2 := os.ReadFile(path)
	if err != nil || err2 != nil || stat.Mode().Perm() != 0o755 || string(text) != program {
		t.Fatalf("%v %v %v", stat.Mode(), err, err2)
	}
	trial := w.read().Trial
	if trial == nil || trial.Version != newVersion || trial.Previous != oldVersion || trial.Older != oldVersion || trial.Starts != install.Starts || trial.Before.Ready["Qwen"] != 2 {
		t.Fatalf("%+v", trial)
	}
	if want := []install.Act{install.Fetching, install.Checking, install.Looking, install.Turning}; strings.Join(words(acts), " ") != strings.Join(words(want), " ") {
		t.Errorf("it told of %v", acts)
	}
}

func words(acts []install.Act) (all []string) {
	for _, a := range acts {
		all = append(all, string(a))
	}
	return all
}

func TestNothingUnverifiedIsInstalled(t *testing.T) {
	w := newWorld(t)
	for _, r := range []*update.Verified{nil, new(update.Verified)} {
		if err := w.open().Install(t.Context(), r, w.order()); err == nil {
			t.Error("it was installed")
		}
	}
	w.wantLinks(oldVersion, oldVersion)
	w.wantNothingLeft()
}

// TestWhatIsNotInstalledChangesNothing goes through the reasons to refuse.
func TestWhatIsNotInstalledChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		programs map[string][]byte
		says     string
	}{
		"for another platform":  {map[string][]byte{"linux/riscv64": []byte(script(newVersion, "good"))}, "linux/riscv64"},
		"another version":       {map[string][]byte{platform: []byte(script("v9.9.9", "good"))}, "v9.9.9"},
		"no program":            {map[string][]byte{platform: []byte("nothing that runs")}, "ask the publisher"},
		"says without end":      {map[string][]byte{platform: []byte("#!/bin/sh\nhead -c 30000000 /dev/zero; exit 1\n")}, "ask the publisher"},
		"says nothing":          {map[string][]byte{platform: []byte("#!/bin/sh\n")}, "ask the publisher"},
		"says too much":         {map[string][]byte{platform: []byte("#!/bin/sh\nhead -c 1000000 /dev/zero\n")}, "ask the publisher"},
		"refuses the settings":  {map[string][]byte{platform: []byte(script(newVersion, "choosy"))}, "no such key"},
		"ends with a complaint": {map[string][]byte{platform: []byte("#!/bin/sh\necho 'no such instruction' >&2; exit 132\n")}, "no such instruction"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			err := w.open().Install(t.Context(), w.releaseFor(newVersion, c.programs), w.order())
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v", err)
			}
			w.wantLinks(oldVersion, oldVersion)
			w.wantNothingLeft()
			if s := w.read(); s.Trial != nil || s.Bad != nil {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestConfigurationThatBothRefuseInTheSameWordsIsNoReason(t *testing.T) {
	w := newWorld(t)
	w.put(oldVersion, script(oldVersion, "choosy"))
	w.install(newVersion, "choosy")
	w.wantLinks(newVersion, oldVersion)
}

func TestProgramThatDoesNotEndWhenAskedIsNotInstalled(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	r := w.release(newVersion, "#!/bin/sh\nexec sleep 600\n")
	if err := w.open().Install(ctx, r, w.order()); err == nil {
		t.Fatal("it was installed")
	}
	w.wantNothingLeft()
}

func TestUpdateDuringAnUpdateSaysWhoIsAtIt(t *testing.T) {
	w := newWorld(t)
	unlock, err := w.open().Lock("installing v1.9.0")
	if err != nil {
		t.Fatal(err)
	}
	r := w.release(newVersion, script(newVersion, "good"))
	err = w.open().Install(t.Context(), r, w.order())
	if !errors.Is(err, install.ErrBusy) || !strings.Contains(err.Error(), "installing v1.9.0, process ") {
		t.Fatalf("got %v", err)
	}
	unlock()
	if err := w.open().Install(t.Context(), r, w.order()); err != nil {
		t.Fatal(err)
	}
}

func TestUpdateDuringATrialIsRefused(t *testing.T) {
	w := newWorld(t)
	w.install(newVersion, "good")
	r := w.release("v1.2.5", script("v1.2.5", "good"))
	for _, err := range []error{w.open().Install(t.Context(), r, w.order()), w.open().Back(t.Context(), w.order())} {
		if !errors.Is(err, install.ErrBusy) || !strings.Contains(err.Error(), newVersion+" is on trial") {
			t.Errorf("got %v", err)
		}
	}
	w.wantLinks(newVersion, oldVersion)
}

func TestWhatWasTakenBackIsInstalledAgainOnlyWhereAPersonNamesIt(t *testing.T) {
	w := newWorld(t)
	if err := w.open().Change(func(s *install.State) { s.Bad = []install.Bad{{Version: newVersion, Why: "it did not answer"}} }); err != nil {
		t.Fatal(err)
	}
	r := w.release(newVersion, script(newVersion, "good"))
	if err := w.open().Install(t.Context(), r, w.order()); !errors.Is(err, install.ErrRefused) || !strings.Contains(err.Error(), "it did not answer") {
		t.Fatalf("got %v", err)
	}
	order := w.order()
	order.Named = true
	if err := w.open().Install(t.Context(), r, order); err != nil {
		t.Fatal(err)
	}
}

func TestBackIsATrialAsWell(t *testing.T) {
	w := newWorld(t)
	if err := w.open().Back(t.Context(), w.order()); !errors.Is(err, install.ErrRefused) {
		t.Fatalf("there is nothing to go back to, and it says %v", err)
	}
	w.put("v1.2.2", script("v1.2.2", "good"))
	w.link("previous", "v1.2.2")
	if err := w.open().Back(t.Context(), w.order()); err != nil {
		t.Fatal(err)
	}
	w.wantLinks("v1.2.2", oldVersion)
	if trial := w.read().Trial; trial == nil || trial.Version != "v1.2.2" || trial.Previous != oldVersion {
		t.Fatalf("%+v", trial)
	}
}

func TestSourceThatDripsLeavesNothing(t *testing.T) {
	w := newWorld(t)
	reg := updatetest.NewRegistry(t)
	w.publish(newVersion, map[string][]byte{platform: []byte(script(newVersion, "good"))})
	proof, err := os.ReadFile(filepath.Join(w.source, newVersion+".sigstore.json"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := update.Publish(t.Context(), update.Publication{Dir: w.source, Version: newVersion, Repository: reg.Name, Bundles: [][]byte{proof}, Transport: reg}); err != nil {
		t.Fatal(err)
	}
	u, err := update.New(update.Config{
		Publisher: publisher, Version: oldVersion, Source: reg.Name, Transport: reg,
		Trust: update.TrustConfig{Root: w.sig.Root(), Mirror: "http://tuf.example", Transport: reg},
	})
	if err != nil {
		t.Fatal(err)
	}
	found, _, err := u.Find(t.Context(), newVersion, false)
	if err != nil {
		t.Fatal(err)
	}
	reg.Drip.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := w.open().Install(ctx, found, w.order()); err == nil {
		t.Fatal("it was installed")
	}
	w.wantLinks(oldVersion, oldVersion)
	w.wantNothingLeft()
}

func TestSmallFilesOfTheStateAreKeptAsTheyWere(t *testing.T) {
	w := newWorld(t)
	for path, text := range map[string]string{
		"aliases.json": "names", "session-key": "key", "lock": "", "tsnode/state": "device", "kv/chunk": "cache", "history/day": "figures",
		"large.json": strings.Repeat("x", 2<<20),
	} {
		path = filepath.Join(w.state, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	w.install(newVersion, "good")
	kept := filepath.Join(w.state, install.Snapshot, oldVersion)
	for path, want := range map[string]string{"aliases.json": "names", "session-key": "key", "tsnode/state": "device"} {
		text, err := os.ReadFile(filepath.Join(kept, path))
		if err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	for _, path := range []string{"lock", "kv", "history", "large.json", install.Snapshot} {
		if _, err := os.Stat(filepath.Join(kept, path)); err == nil {
			t.Errorf("%s was copied", path)
		}
	}
	if stat, err := os.Stat(filepath.Join(kept, "session-key")); err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("the copy of a key: %v, %v", stat, err)
	}
}

func TestNobodyGoesBackToWhatIsGone(t *testing.T) {
	w := newWorld(t)
	w.link("previous", "v1.2.2")
	if err := w.open().Back(t.Context(), w.order()); !errors.Is(err, install.ErrRefused) || !strings.Contains(err.Error(), "no other version here") {
		t.Fatal(err)
	}
	w.wantLinks(oldVersion, "v1.2.2")
}
