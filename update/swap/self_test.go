package swap_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"viiwork/update/install"
	"viiwork/update/swap"
)

// TestNewContainerIsMadeByOurOwnRules: what was the old image's, or Docker's, is not carried on; what is the owner's is.
func TestNewContainerIsMadeByOurOwnRules(t *testing.T) {
	s := self()
	s.Environ = []string{"PATH=/old/bin", "HOSTNAME=attic", "VIIWORK_CONFIG=/etc/viiwork/viiwork.yaml", "MY_SECRET=x", "LD_PRELOAD=/evil.so", "TZ=UTC"}
	s.Keep = []string{"MY_SECRET"}
	s.Labels = map[string]string{"com.docker.compose.service": "viiwork", "com.docker.compose.image": oldImage, "org.opencontainers.image.version": "v1.0.0"}
	b := swap.NodeOf(s, "plan", newImage)
	if want := []string{"MY_SECRET=x", "TZ=UTC", "VIIWORK_CONFIG=/etc/viiwork/viiwork.yaml"}; !slices.Equal(b.Env, want) {
		t.Errorf("environment %v, want %v", b.Env, want)
	}
	if b.Entrypoint != nil || b.Image != newImage || b.User != "1000:1000" || !slices.Equal(b.Groups, []string{"998"}) || b.Restart != "unless-stopped" || !slices.Equal(b.Args, s.Args) {
		t.Errorf("%+v", b)
	}
	if len(b.Labels) != 4 || b.Labels["com.docker.compose.service"] != "viiwork" || b.Labels["com.docker.compose.image"] != newImage {
		t.Errorf("labels %v", b.Labels)
	}
	h := swap.HelperOf(s, "plan", "/var/lib/viiwork")
	if h.Image != oldImage || h.Name != "viiwork.swap" || h.Restart != "on-failure" || !slices.Equal(h.Env, []string{"TZ=UTC"}) {
		t.Errorf("helper %+v", h)
	}
	for _, made := range []swap.Box{b, h} {
		if _, ok := made.Labels["viiwork.state"]; ok {
			t.Error("it carries the label by which engines are found, and cleared away")
		}
	}
}

// TestContainerThatCannotComeBackIsNotReplaced: each is refused before anything is done.
func TestContainerThatCannotComeBackIsNotReplaced(t *testing.T) {
	for want, change := range map[string]func(*swap.Self){
		"--rm":                         func(s *swap.Self) { s.Passing = true },
		"--network host":               func(s *swap.Self) { s.HostNetwork = false },
		"-v /etc/viiwork:/etc/viiwork": func(s *swap.Self) { s.Needs = append(s.Needs, "/etc/viiwork") },
		"was not started by":           func(s *swap.Self) { s.Args = []string{"demo"} },
		"which container this is":      func(s *swap.Self) { s.ID = "" },
	} {
		d, dir, s := newDaemon(t), t.TempDir(), self()
		change(&s)
		err := swap.Begin(t.Context(), d.config(dir), swap.Order{Self: s, From: "v1.0.0"})
		if !errors.Is(err, swap.ErrRefused) || !strings.Contains(err.Error(), want) || d.acts != 0 {
			t.Errorf("%v after %d acts; want %q", err, d.acts, want)
		}
	}
}

// TestMountThatCannotBeWrittenIsOne, and one around a path is.
func TestMountThatCannotBeWrittenIsOne(t *testing.T) {
	s := self()
	s.Binds = append(s.Binds, "/home/x/viiwork:/etc/viiwork:ro", "/srv:/srv")
	s.Needs = append(s.Needs, "/etc/viiwork", "/srv/models", "/srv")
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"/srv2", "/", "/etc"} {
		s.Needs = []string{path}
		if err := s.Check(); !errors.Is(err, swap.ErrRefused) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestOneSwapAtATime: while one is on trial no other begins, and its helper is started should it have ended.
func TestOneSwapAtATime(t *testing.T) {
	d, dir := newDaemon(t), t.TempDir()
	d.begin(dir)
	d.vessels["made1"].Running = false
	err := swap.Begin(t.Context(), d.config(dir), swap.Order{Self: self(), From: "v1.0.0", Watch: time.Second})
	if !errors.Is(err, install.ErrBusy) || !strings.Contains(err.Error(), "v1.1.0 is on trial") {
		t.Errorf("error %v", err)
	}
	if !d.vessels["made1"].Running {
		t.Error("the helper was not started again")
	}
}

// TestAPipeInPlaceOfAPlanHoldsNobodyUp: to open it would wait for its other end, at each start.
func TestAPipeInPlaceOfAPlanHoldsNobodyUp(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "swap"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"plan.json", "state.json"} {
		if err := syscall.Mkfifo(filepath.Join(dir, "swap", name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := swap.At(dir).Plan(); err == nil || p != nil {
		t.Errorf("plan %v, %v", p, err)
	}
	if _, err := swap.At(dir).State(); err == nil {
		t.Error("the state is read")
	}
}

// TestWhatIsPreparedBeginsOnceOrNever: until it begins nothing has changed, and of two that were prepared one begins.
func TestWhatIsPreparedBeginsOnceOrNever(t *testing.T) {
	d, dir := newDaemon(t), t.TempDir()
	if err := swap.Remember(dir, swap.State{Previous: &swap.Kept{Version: "v1.1.0", Image: newImage}}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "node.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	was := d.names()
	var ready []*swap.Ready
	for range 2 {
		r, err := swap.Prepare(t.Context(), d.config(dir), swap.Order{Self: self(), From: "v1.0.0", Node: "attic", Patience: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ready = append(ready, r)
	}
	if p, err := swap.At(dir).Plan(); p != nil || err != nil || !maps.Equal(d.names(), was) {
		t.Errorf("prepared only: %+v, %v, containers %v", p, err, d.names())
	}
	if err := ready[1].Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, install.Snapshot, "v1.0.0", "node.json")); err != nil {
		t.Errorf("small files were not copied: %v", err)
	}
	for i, r := range ready {
		if err := r.Begin(t.Context()); !errors.Is(err, install.ErrBusy) {
			t.Errorf("number %d begins as well: %v", i, err)
		}
	}
}

// TestVersionThatSaysAnotherIsNotBegun: the new program is asked before the old one is stopped.
func TestVersionThatSaysAnotherIsNotBegun(t *testing.T) {
	d, dir := newDaemon(t), t.TempDir()
	d.images[newImage] = behaviour{version: "v6.6.6", ready: 2}
	if err := swap.Remember(dir, swap.State{Previous: &swap.Kept{Version: "v1.1.0", Image: newImage}}); err != nil {
		t.Fatal(err)
	}
	err := swap.Begin(t.Context(), d.config(dir), swap.Order{Self: self(), From: "v1.0.0"})
	if err == nil || !strings.Contains(err.Error(), "v6.6.6") || d.acts != 0 {
		t.Errorf("%v after %d acts", err, d.acts)
	}
}

// TestConfigurationThatTheNewVersionRefusesIsARefusal, unless the old one has the same against it and runs.
func TestConfigurationThatTheNewVersionRefusesIsARefusal(t *testing.T) {
	for name, c := range map[string]struct {
		old, new string
		refused  bool
	}{
		"neither":         {},
		"the new one":     {new: "5:3: unknown key", refused: true},
		"both, the same":  {old: "GPU 1 is not there\n", new: "GPU 1 is not there\n"},
		"both, and more":  {old: "GPU 1 is not there\n", new: "GPU 1 is not there\n5:3: unknown key\n", refused: true},
		"the old one":     {old: "GPU 1 is not there\n"},
		"without a word":  {new: " ", refused: true},
		"another's words": {old: "5:4: unknown key", new: "5:3: unknown key", refused: true},
	} {
		d, dir := newDaemon(t), t.TempDir()
		d.images[oldImage] = behaviour{version: "v1.0.0", ready: 2, against: c.old}
		d.images[newImage] = behaviour{version: "v1.1.0", ready: 2, against: c.new}
		if err := swap.Remember(dir, swap.State{Previous: &swap.Kept{Version: "v1.1.0", Image: newImage}}); err != nil {
			t.Fatal(err)
		}
		err := swap.Begin(t.Context(), d.config(dir), swap.Order{Self: self(), From: "v1.0.0", Config: "/var/lib/viiwork/viiwork.yaml"})
		if (err != nil) != c.refused || c.refused && !strings.Contains(err.Error(), "it refuses the configuration") {
			t.Errorf("%s: %v", name, err)
		}
		if c.refused && d.acts != 0 {
			t.Errorf("%s: %d acts", name, d.acts)
		}
	}
}
