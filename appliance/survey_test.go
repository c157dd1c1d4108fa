package appliance_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"viiwork/appliance"
	"viiwork/appliance/config"
	"viiwork/appliance/status"
	"viiwork/engine"
	"viiwork/engine/enginetest"
	"viiwork/engine/plan"
)

// smallCards is a machine with n AMD cards of 1 GiB and 8 GiB of RAM.
func smallCards(t testing.TB, n int) (root string) {
	t.Helper()
	t.Setenv("PATH", t.TempDir()) // no nvidia-smi
	root = t.TempDir()
	files := map[string]string{"proc/meminfo": "MemTotal:        8388608 kB\nMemFree: 1 kB\n"}
	for i := range n {
		node := fmt.Sprintf("sys/class/kfd/kfd/topology/nodes/%d/", i+1)
		files[node+"properties"] = fmt.Sprintf("simd_count 240\ngfx_target_version 90006\ndrm_render_minor %d\n", 128+i)
		card := fmt.Sprintf("sys/class/drm/card%d/device/", i)
		files[card+"vendor"], files[card+"mem_info_vram_total"] = "0x1002\n", "1073741824\n"
		files[fmt.Sprintf("%sdrm/renderD%d/dev", card, 128+i)] = ""
	}
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// modelAt writes one with a KV cache of 2048 bytes a token.
func modelAt(t testing.TB, path string) string {
	t.Helper()
	if err := enginetest.WriteGGUF(path, enginetest.GGUFOptions{}); err != nil {
		t.Fatal(err)
	}
	return path
}

func configured(t testing.TB, dir, models string) *config.Config {
	t.Helper()
	text := fmt.Sprintf("node: {name: n, state_dir: %q}\nmesh: {network: lan, open: true}\nmodels_dir: %q\nmodels:\n%s", filepath.Join(dir, "state"), dir, models)
	cfg, err := config.Parse("viiwork.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestWhatAMachineCannotHoldIsRefusedAtItsPlace(t *testing.T) {
	root, dir := smallCards(t, 2), t.TempDir()
	modelAt(t, filepath.Join(dir, "m.gguf"))
	for name, c := range map[string]struct{ models, want string }{
		"too many slots": {"  - name: m\n    path: m.gguf\n    gpus: [0]\n    context: 100000\n    parallel: 3\n    llamacpp: {image: rocm}\n",
			"viiwork.yaml:9:15: models[0].parallel: needs"},
		"its way out": {"  - {name: m, path: m.gguf, gpus: [0], context: 100000, parallel: 3, llamacpp: {image: rocm}}\n",
			"card 0 has 512 MiB; fits with 1 slot"},
		"too long": {"  - {name: m, path: m.gguf, gpus: [0], context: 400000, llamacpp: {image: rocm}}\n",
			"viiwork.yaml:5:49: models[0].context: needs"},
		"no such card": {"  - {name: m, path: m.gguf, gpus: [1, 7], llamacpp: {image: rocm}}\n",
			"viiwork.yaml:5:39: models[0].gpus[1]: this machine has no card 7: it has rocm cards 0 and 1"},
		"more RAM than there is": {"  - {name: m, path: m.gguf, llamacpp: {image: cpu, prompt_cache: 9GiB}}\n",
			"models[0].llamacpp.prompt_cache: needs 9.0 GiB of RAM at 1 × 8k, this machine has 7 GiB for engines; fits with a prompt cache of 6912MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configured(t, dir, c.models)
			_, err := appliance.New(cfg, appliance.Options{Log: slog.New(slog.DiscardHandler), HostRoot: root})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("serve says\n%v\nwant %q", err, c.want)
			}
			s := appliance.Survey{Root: root}
			if faults, _ := s.Check(t.Context(), cfg); err == nil || faults.Error() != err.Error() {
				t.Errorf("config validate says\n%v\nand serve\n%v", faults, err)
			}
		})
	}
}

func TestWhatIsUnknownIsNoRefusal(t *testing.T) {
	root, dir := smallCards(t, 1), t.TempDir()
	modelAt(t, filepath.Join(dir, "m.gguf"))
	for name, c := range map[string]struct{ models, want string }{
		"no file":         {"  - {name: m, path: gone.gguf, gpus: [0], context: 1000000, llamacpp: {image: rocm}}\n", ""},
		"no card seen":    {"  - {name: m, path: m.gguf, gpus: [5], context: 1000000, llamacpp: {image: cuda}}\n", "no cuda card can be seen from here: whether m fits is not known"},
		"placed by hand":  {"  - {name: m, path: m.gguf, gpus: [0], context: 1000000, args: [-ngl, 2], llamacpp: {image: rocm}}\n", "m looks too large for this machine, but is placed by its own args"},
		"somebody else's": {"  - {name: m, llamacpp: {runner: external, url: \"http://127.0.0.1:1\"}}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := appliance.Survey{Root: root}
			faults, warnings := s.Check(t.Context(), configured(t, dir, c.models))
			if len(faults) > 0 {
				t.Errorf("refused: %v", faults)
			}
			if got := strings.Join(warnings, "\n"); got != c.want {
				t.Errorf("warnings %q, want %q", got, c.want)
			}
		})
	}
}

func TestAnOpenPromptCacheIsPlannedAndShownAsSuch(t *testing.T) {
	root, dir := smallCards(t, 2), t.TempDir()
	modelAt(t, filepath.Join(dir, "m.gguf"))
	cfg := configured(t, dir, "  - {name: a, path: m.gguf, gpus: [0], llamacpp: {image: rocm}}\n  - {name: b, path: m.gguf, gpus: [1], llamacpp: {image: rocm, prompt_cache: 1GiB}}\n")
	s := appliance.Survey{Root: root}
	if faults, _ := s.Check(t.Context(), cfg); len(faults) > 0 {
		t.Fatal(faults)
	}
	shown := map[string]string{}
	for _, setting := range cfg.Show() {
		shown[setting.Key] = setting.Value + " " + setting.Origin
	}
	// 8 GiB, less 4, less the other's 1 and a little of weights: 2 whole ones.
	for key, want := range map[string]string{config.PromptCacheKey(0): "2GiB plan", config.PromptCacheKey(1): "1GiB viiwork.yaml:6"} {
		if shown[key] != want {
			t.Errorf("%s is %q, want %q", key, shown[key], want)
		}
	}
}

// TestAReloadKeepsThePromptCachesOfOthers: another size would end engines that nobody changed.
func TestAReloadKeepsThePromptCachesOfOthers(t *testing.T) {
	root, dir := smallCards(t, 2), t.TempDir()
	modelAt(t, filepath.Join(dir, "m.gguf"))
	first := "  - {name: a, path: m.gguf, gpus: [0], llamacpp: {image: rocm}}\n"
	a, err := appliance.New(configured(t, dir, first), appliance.Options{Log: slog.New(slog.DiscardHandler), HostRoot: root})
	if err != nil {
		t.Fatal(err)
	}
	next := configured(t, dir, first+"  - {name: b, path: m.gguf, gpus: [1], llamacpp: {image: rocm}}\n")
	if _, err := a.Reload(next); err != nil {
		t.Fatal(err)
	}
	if got := next.Models[0].Llamacpp.PromptCache; got != 3<<30 {
		t.Errorf("the first model's prompt cache became %d", got)
	}
	if got := next.Models[1].Llamacpp.PromptCache; got != 2<<30 {
		t.Errorf("the second one's is %d", got)
	}
}

func TestWhatWasMeasuredDecidesTheNextPlan(t *testing.T) {
	root, dir := smallCards(t, 1), t.TempDir()
	modelAt(t, filepath.Join(dir, "m.gguf"))
	cfg := configured(t, dir, "  - {name: m, path: m.gguf, gpus: [0], llamacpp: {image: rocm}}\n")
	check := func() config.Faults {
		s := appliance.Survey{Root: root}
		faults, _ := s.Check(t.Context(), cfg)
		return faults
	}
	if faults := check(); len(faults) > 0 {
		t.Fatal(faults)
	}
	if err := os.MkdirAll(cfg.Node.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := appliance.Measured(cfg, root, plan.Beside{Bytes: 600 << 20, Tokens: 8192}); err != nil {
		t.Fatal(err)
	}
	if faults := check(); len(faults) != 1 {
		t.Errorf("600 MiB beside weights and cache on a card of 512: %v", faults)
	}
	path := filepath.Join(cfg.Node.StateDir, "calibration.json")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	if err := os.WriteFile(path, []byte(`{"version":1,"seen":[{"digest":"v1:`), 0o600); err != nil {
		t.Fatal(err)
	}
	if faults := check(); len(faults) > 0 {
		t.Errorf("a broken file is believed: %v", faults)
	}
}

func TestMeasurementsAreBounded(t *testing.T) {
	if n, err := appliance.Calibrated(t.TempDir(), 530); err != nil || n != 512 {
		t.Errorf("%d kept, %v", n, err)
	}
	if _, err := appliance.Calibrated(filepath.Join(t.TempDir(), "none"), 1); err == nil {
		t.Error("a folder that is not there takes measurements")
	}
}

// TestMeasurementsThatAreNoFileAreNotWaitedFor: a pipe in their place would hold the node's start for ever.
func TestMeasurementsThatAreNoFileAreNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "calibration.json")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		n, err := appliance.Calibrated(dir, 1)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d measurements", n)
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("a pipe is waited for")
	}
}

func FuzzCalibration(f *testing.F) {
	f.Add([]byte(`{"version":1,"seen":[{"digest":"v1:a","cards":"cuda 1 × RTX","build":"b1","bytes":1073741824,"tokens":4096}]}`))
	f.Add([]byte(`{"version":1,"seen":[{"digest":"v1:a","bytes":-1,"tokens":1e99}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if n := appliance.ReadCalibration(data); n > 512 {
			t.Errorf("%d measurements are taken", n)
		}
	})
}

func TestAFileReplacedUnderItsEngineIsNamed(t *testing.T) {
	path := modelAt(t, filepath.Join(t.TempDir(), "m.gguf"))
	process := "pid 1"
	d := appliance.NewDigests(func() []engine.ModelState {
		return []engine.ModelState{{Model: engine.Model{Name: "m", Path: path}, Backends: []engine.BackendState{{ID: "m#0", Process: process}}}}
	})
	if w := d.Update(t.Context()); len(w) > 0 {
		t.Fatalf("at first: %v", w)
	}
	if err := enginetest.WriteGGUF(path, enginetest.GGUFOptions{Seed: 9}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if w := d.Update(t.Context()); len(w) != 1 || w[0].ID != "model_file_replaced" || !strings.Contains(w[0].Text, "the file of m was replaced") {
		t.Errorf("after the replacement: %v", w)
	}
	former, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	process = "pid 2"
	if w := d.Update(t.Context()); len(w) > 0 {
		t.Errorf("after a restart: %v", w)
	}
	other := path + ".new" // as 'cp -p' and then 'mv' leave it
	if err := enginetest.WriteGGUF(other, enginetest.GGUFOptions{Seed: 10}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chtimes(other, time.Time{}, former.ModTime()), os.Rename(other, path)); err != nil {
		t.Fatal(err)
	}
	if w := d.Update(t.Context()); len(w) != 1 {
		t.Errorf("after one of the same size and time: %v", w)
	}
}

func TestEveryModelFileIsListed(t *testing.T) {
	root, dir := smallCards(t, 2), t.TempDir()
	whole, err := os.ReadFile(modelAt(t, filepath.Join(dir, "a.gguf")))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		if err := os.Link(filepath.Join(dir, "a.gguf"), filepath.Join(dir, fmt.Sprintf("model-%03d.gguf", i))); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := t.TempDir()
	modelAt(t, filepath.Join(elsewhere, "linked.gguf"))
	for path, data := range map[string][]byte{
		"broken/cut.gguf": whole[:len(whole)/2], "broken/text.gguf": []byte("<html>"), "broken/empty.gguf": nil,
		"sharded/b-00001-of-00002.gguf": whole, "notes.txt": nil, "vision/mmproj-F16.gguf": whole, "vision/v.gguf": whole,
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"loop": dir, "self.gguf": filepath.Join(dir, "self.gguf"), "outside": elsewhere, "gone.gguf": "/nowhere"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s := appliance.Survey{Root: root}
	list, err := s.ModelFiles(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]status.ModelFile{}
	for _, f := range list {
		rel, _ := filepath.Rel(dir, f.Path)
		files[rel] = f
	}
	for name, want := range map[string]string{
		"broken/cut.gguf": "is truncated", "broken/text.gguf": "is not a GGUF file", "broken/empty.gguf": "is truncated",
		"sharded/b-00001-of-00002.gguf": "part 2 of 2 is missing", "loop": "leads to a folder that is listed already",
		"self.gguf": "is a link that cannot be followed", "gone.gguf": "is a link that cannot be followed",
	} {
		if got := files[name].Error; !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	m := files["model-499.gguf"]
	if m.Error != "" || m.Fits == nil || !*m.Fits || m.Backends != 2 || m.Architecture != "llama" || m.Quantisation != "F16" || m.Context != 32768 || m.Kind != "chat" {
		t.Errorf("a whole one: %+v", m)
	}
	if _, there := files["outside/linked.gguf"]; !there || len(list) != 501+3+1+2+1+4-1 {
		t.Errorf("%d files, %v", len(list), there)
	}
	if v := files["vision/v.gguf"]; filepath.Base(v.Projector) != "mmproj-F16.gguf" || files["vision/mmproj-F16.gguf"].Kind != "projector" {
		t.Errorf("a model and its projector: %+v", v)
	}
	if _, err := s.ModelFiles(t.Context(), filepath.Join(dir, "none")); err == nil {
		t.Error("a folder that is not there has been listed")
	}
}

func TestAFolderThatMayNotBeReadIsNamed(t *testing.T) {
	if bound := "VIIWORK_TEST_BOUND"; os.Getuid() == 0 && os.Getenv(bound) == "" {
		// Root may read everything, but for one without that right.
		cmd := exec.Command("setpriv", "--bounding-set=-dac_override,-dac_read_search", os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), bound+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "shut"), 0o100|fs.ModeDir); err != nil {
		t.Fatal(err)
	}
	var s appliance.Survey
	list, err := s.ModelFiles(t.Context(), dir)
	if err != nil || len(list) != 1 || !strings.Contains(list[0].Error, "let this user read it") {
		t.Errorf("%+v, %v", list, err)
	}
}
