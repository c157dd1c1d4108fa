package appliance_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"viiwork/appliance"
	"viiwork/appliance/config"
	"viiwork/engine/enginetest"
)

// TestCardsAreToldApartByTheirFamily: card 0 of NVIDIA and card 0 of AMD are two cards.
func TestCardsAreToldApartByTheirFamily(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(root, "sys/class/kfd/kfd/topology/nodes/0/properties"): "simd_count 240\ngfx_target_version 90006\n",
		filepath.Join(root, "usr/bin/nvidia-smi"):                            "#!/bin/sh\n[ \"$1\" = -L ] || echo '0, RTX, GPU-1, 24576, 00000000:01:00.0'\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := enginetest.WriteProgram(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	text := fmt.Sprintf("node: {name: n, state_dir: %q}\nmesh: {open: true}\nmodels: [{name: m, path: /m.gguf, gpus: [0], llamacpp: {image: cuda}}]\n", t.TempDir())
	cfg, err := config.Parse("viiwork.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := appliance.New(cfg, appliance.Options{Log: slog.New(slog.DiscardHandler), HostRoot: root})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, card := range a.Status().GPUs {
		got[card.Accel] = card.Model
	}
	if want := map[string]string{"cuda": "m", "rocm": ""}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("models by card: %v, want %v", got, want)
	}
}
