package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"viiwork/appliance/config"
	"viiwork/update/install"
	"viiwork/update/swap"
)

// TestContainersInstallerTellsWhatIsOnDisk: a plan is a trial, and what was taken back last is told until another is.
func TestContainersInstallerTellsWhatIsOnDisk(t *testing.T) {
	dir := t.TempDir()
	i := &boxInstaller{cfg: &config.Config{Node: config.Node{StateDir: dir}}, refuses: "it was started with --rm"}
	if is := i.Installed(); is.Trial+is.Bad != "" || is.Refuses != "it was started with --rm" {
		t.Errorf("nothing was ever done: %+v", is)
	}
	when := time.Unix(1e9, 0).UTC()
	id := strings.Repeat("ab", 16)
	put(t, dir, "state.json", swap.State{Bad: []install.Bad{{Version: "v1.0.1", Why: "old"}, {Version: "v1.0.2", Why: "m is not ready", Time: when}}})
	put(t, dir, "plan.json", swap.Plan{
		ID: id, Version: "v1.0.3", Name: "viiwork", Old: "a", OldImage: "b", Image: "c", Stage: install.Proving, Detail: "m",
		New: swap.Box{Image: "c", Labels: map[string]string{"viiwork.swap": id}},
	})
	if is := i.Installed(); is.Trial != "v1.0.3 is asked for an answer: m" || is.Bad != "v1.0.2" || is.Back != when.UnixMilli() || is.BackWhy != "m is not ready" {
		t.Errorf("%+v", is)
	}
	put(t, dir, "plan.json", "no plan")
	if is := i.Installed(); !strings.Contains(is.Refuses, "reading the plan of an update") {
		t.Errorf("with a plan that is none: %+v", is)
	}
}

// TestNothingPreparedRestartsNothing.
func TestNothingPreparedRestartsNothing(t *testing.T) {
	if err := (&boxInstaller{}).Restart(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing is prepared") {
		t.Error(err)
	}
}

// put writes a file of swaps.
func put(t *testing.T, stateDir, name string, from any) {
	t.Helper()
	text, err := json.Marshal(from)
	if err == nil {
		err = os.MkdirAll(filepath.Join(stateDir, "swap"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(stateDir, "swap", name), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
