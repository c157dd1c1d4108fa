package wizard_test

import (
	"path/filepath"
	"testing"

	"viiwork/appliance/setup"
	"viiwork/appliance/setup/wizard"
	"viiwork/engine/enginetest"
	"viiwork/engine/gpu"
)

// small1B fits most machines.
var small1B = enginetest.Shape{Arch: "llama", Layers: 16, Weights: 1 << 30, Width: 2048, Context: 32768, KVHeads: 8}

// shelf is a folder with a model that fits most machines, and one that fits few.
func shelf(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, s := range map[string]enginetest.Shape{
		"small-1b-Q8_0.gguf":  small1B,
		"huge-670B-Q4_0.gguf": {Arch: "llama", Layers: 61, Weights: 398 << 30, Width: 7168, Context: 163840, KVHeads: 8},
	} {
		if err := s.Write(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// on is what a machine with that hardware shows, with nothing of the one this runs on.
func on(t testing.TB, name string) wizard.Sight {
	t.Helper()
	host := gpu.At(filepath.Join("../../../engine/gpu/testdata/hosts", name))
	s := wizard.Look(t.Context(), host, setup.Machine{Manager: setup.Systemd})
	s.Name, s.Fresh = "Attic.example.org", make([]byte, 32)
	return s
}
