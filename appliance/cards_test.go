package appliance_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"viiwork/appliance"
	"viiwork/appliance/config"
	"viiwork/appliance/status"
	"viiwork/engine"
	"viiwork/engine/enginetest"
	"viiwork/engine/gpu"
)

const hosts = "../engine/gpu/testdata/hosts/"

// onHost makes a node of the machine under root with models as given.
func onHost(t *testing.T, root, models string) (*appliance.Appliance, error) {
	t.Helper()
	text := fmt.Sprintf("node: {name: n, state_dir: %q}\nmesh: {open: true}\nmodels: [%s]\n", t.TempDir(), models)
	cfg, err := config.Parse("viiwork.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return appliance.New(cfg, appliance.Options{Log: slog.New(slog.DiscardHandler), HostRoot: root})
}

func TestStatusShowsHowTheCardsAre(t *testing.T) {
	a, err := onHost(t, hosts+"gfx906x4", "{name: m, path: /m.gguf, gpus: [0, 1], llamacpp: {image: rocm-gfx906}}")
	if err != nil {
		t.Fatal(err)
	}
	cards := a.Status().GPUs
	if len(cards) != 5 {
		t.Fatalf("%d cards", len(cards))
	}
	first, last := cards[0], cards[4]
	if first.Model != "m" || *first.Used != 15032385536 || *first.Busy != 0.87 || *first.Celsius != 61 || *first.Watts != 171 || *first.CapWatts != 225 || first.Gfx != "gfx906" {
		t.Errorf("%+v", first)
	}
	if !last.Integrated || !last.Display || last.CapWatts != nil || last.Model != "" {
		t.Errorf("%+v", last)
	}
	for _, w := range a.Status().Warnings {
		if w.ID == "gpu" {
			t.Errorf("%+v", w)
		}
	}
}

// TestInAContainerTheCardsAreAskedForThroughDocker, and when that cannot be done the owner is told why.
func TestInAContainerTheCardsAreAskedForThroughDocker(t *testing.T) {
	if _, err := exec.LookPath("nvidia-smi"); err == nil {
		t.Skip("this machine has a driver's tools of its own")
	}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, ".dockerenv"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	a, err := onHost(t, root, "{name: m, path: /m.gguf, gpus: [0], llamacpp: {image: 'example.invalid/cuda:1'}}")
	if err != nil {
		t.Fatal(err)
	}
	warned := ""
	for _, w := range a.Status().Warnings {
		if w.ID == "gpu" {
			warned += w.Text
		}
	}
	if !strings.Contains(warned, "example.invalid/cuda:1") && !strings.Contains(warned, "Docker") {
		t.Errorf("warned of %q", warned)
	}
	if a, err = onHost(t, root, "{name: m, path: /m.gguf}"); err != nil || slices.ContainsFunc(a.Status().Warnings, func(w status.Warning) bool { return w.ID == "gpu" }) {
		t.Errorf("a node without models on cards asks too: %v, %+v", err, a.Status().Warnings)
	}
}

// TestACardThatIsPartOfTheProcessorHoldsNoModel: what memory it has of its own is kept for the screen.
func TestACardThatIsPartOfTheProcessorHoldsNoModel(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := enginetest.WriteGGUF(file, enginetest.GGUFOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := onHost(t, hosts+"gfx906x4", "{name: m, path: "+file+", gpus: [4], llamacpp: {image: 'example/rocm:1'}}")
	if err == nil || !strings.Contains(err.Error(), "models[0].gpus: needs") || !strings.Contains(err.Error(), "card 4 has none") {
		t.Errorf("got %v", err)
	}
}

func TestACardInInstancesIsRefusedWhereItIsNamed(t *testing.T) {
	root := t.TempDir()
	program := filepath.Join(root, "usr/bin/nvidia-smi")
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	const text = "#!/bin/sh\ncase $1 in -L) printf 'GPU 0: A100 (UUID: GPU-0)\\n  MIG 1g.20gb     Device  0: (UUID: MIG-1)\\nGPU 1: A100 (UUID: GPU-1)\\n' ;;\n" +
		"*) printf '0, A100, GPU-0, 81920\\n1, A100, GPU-1, 81920\\n' ;; esac\n"
	if err := enginetest.WriteProgram(program, []byte(text)); err != nil {
		t.Fatal(err)
	}
	_, err := onHost(t, root, "{name: m, path: /m.gguf, gpus: [1, 0], llamacpp: {image: 'example/cuda:1'}}")
	if err == nil || !strings.Contains(err.Error(), "viiwork.yaml:3:") || !strings.Contains(err.Error(), "models[0].gpus[1]: card 0 cannot run a model, it is cut into MIG instances") {
		t.Errorf("got %v", err)
	}
	if _, err := onHost(t, root, "{name: m, path: /m.gguf, gpus: [1], llamacpp: {image: 'example/cuda:1'}}"); err != nil {
		t.Errorf("its neighbour is refused too: %v", err)
	}
}

// TestCardsAreKnownAgainInsideTheirContainers: each counts its own from 0, and a card without an engine shows nothing.
func TestCardsAreKnownAgainInsideTheirContainers(t *testing.T) {
	host := gpu.At(hosts + "gfx906x4")
	cards, _ := host.List(t.Context())
	for i := range 3 {
		cards = append(cards, gpu.Card{Index: i, Accel: engine.AccelCUDA, UUID: fmt.Sprintf("GPU-%d", i), Reading: gpu.Reading{Celsius: new(float64)}})
	}
	backend := func(process string, index int) engine.BackendState {
		return engine.BackendState{Process: process, GPUs: []int{index}}
	}
	model := engine.ModelState{Model: engine.Model{Runner: engine.RunnerDocker, Accel: engine.AccelCUDA}, Backends: []engine.BackendState{backend("b", 2), backend("a", 0), backend("", 1)}}
	exec := func(_ context.Context, container, program string, args ...string) (string, error) {
		if program != "nvidia-smi" {
			t.Errorf("%s was asked for in a container", program)
		}
		if args[0] == "-L" {
			return "", nil
		}
		uuid, heat := map[string]string{"a": "GPU-0", "b": "GPU-2"}[container], map[string]int{"a": 40, "b": 42}[container]
		return fmt.Sprintf("index, name, uuid, temperature.gpu\n0, X, %s, %d\n", uuid, heat), nil
	}
	read, faults := appliance.ReadBorrowed(t.Context(), host, cards, []engine.ModelState{model}, exec)
	if len(read) != len(cards) || len(faults) > 0 {
		t.Fatalf("%+v, %+v", read, faults)
	}
	for i, want := range []float64{61, 31, 33, 30, 42, 40, 0, 42} {
		got := read[i].Reading.Celsius
		if read[i].Accel != cards[i].Accel || read[i].Index != cards[i].Index || want == 0 && got != nil || want != 0 && (got == nil || *got != want) {
			t.Errorf("card %d: %+v, want %v °C", i, read[i], want)
		}
	}
}

// TestARunningNodeReadsItsCardsAnew: what status shows is not what was so when the node was made.
func TestARunningNodeReadsItsCardsAnew(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS(hosts+"gfx906x4")); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("viiwork.yaml", []byte(nodeConfig("http://127.0.0.1:9", t.TempDir())), nil)
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan string, 1)
	a, err := appliance.New(cfg, appliance.Options{Version: "test", Log: slog.New(slog.DiscardHandler), HostRoot: root, Ready: func(a ...string) { ready <- "http://" + a[0] }})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "sys/class/drm/card1/device/gpu_busy_percent"), []byte("50\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	defer func() {
		stop()
		a.Abort()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	holds(t, "the card's load of now", func() bool { return *a.Status().GPUs[0].Busy == 0.5 })
	select {
	case url := <-ready:
		toldCards(t, scrape(t, url))
	case err := <-ended:
		ended <- err
	}
}

// toldCards: Prometheus is told of each card what its driver tells, and of what it does not tell there is no series.
func toldCards(t *testing.T, told map[string]float64) {
	t.Helper()
	for name, want := range map[string]float64{
		`viiwork_gpu_memory_used_bytes{accel="rocm",gpu="0"}`: 15032385536, `viiwork_gpu_busy_ratio{accel="rocm",gpu="0"}`: 0.5,
		`viiwork_gpu_temperature_celsius{accel="rocm",gpu="0"}`: 61, `viiwork_gpu_power_watts{accel="rocm",gpu="0"}`: 171, `viiwork_gpu_power_limit_watts{accel="rocm",gpu="0"}`: 225,
	} {
		if got, known := told[name]; !known || got != want {
			t.Errorf("%s is %v (%v), want %v", name, got, known, want)
		}
	}
	limits, cards := 0, 0
	for name := range told {
		if strings.HasPrefix(name, "viiwork_gpu_power_limit_watts{") {
			limits++
		}
		if strings.HasPrefix(name, "viiwork_gpu_memory_bytes{") {
			cards++
		}
	}
	if cards != 5 || limits != 4 {
		t.Errorf("%d limits of power are told of %d cards, want 4 of 5: one has none", limits, cards)
	}
}
