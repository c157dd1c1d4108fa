package engine_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"viiwork/engine"
)

func TestBackendIsBoundToItsCards(t *testing.T) {
	hidden := map[string]string{"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1", "GGML_VK_VISIBLE_DEVICES": ""}
	for _, c := range []struct {
		accel engine.Accel
		gpus  []int
		want  map[string]string
	}{
		{engine.AccelNone, nil, hidden},
		{engine.AccelCUDA, nil, hidden},
		{engine.AccelROCm, nil, hidden},
		{engine.AccelMetal, nil, nil},
		{engine.AccelCUDA, []int{0, 3}, map[string]string{"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,3"}},
		{engine.AccelROCm, []int{1}, map[string]string{"ROCR_VISIBLE_DEVICES": "1"}},
	} {
		if got := engine.DeviceEnv(c.accel, c.gpus); !maps.Equal(got, c.want) {
			t.Errorf("%q %v: %v, want %v", c.accel, c.gpus, got, c.want)
		}
	}
}

func TestOnlyNamedVariablesAreInherited(t *testing.T) {
	kept := []string{"PATH=/bin", "HOME=/h", "LC_ALL=C", "GGML_BACKEND_PATH=/x", "HSA_OVERRIDE_GFX_VERSION=9.0.6", "LD_LIBRARY_PATH=/l"}
	dropped := []string{
		"VIIWORK_MESH_SECRET=x", "TS_AUTHKEY=x", "SECRET=x", "ANYTHING=x", "LD_PRELOAD=x", "LLAMA_ARG_PORT=1", "LLAMA_API_KEY=x",
		"CUDA_VISIBLE_DEVICES=1", "HIP_VISIBLE_DEVICES=1", "ROCR_VISIBLE_DEVICES=1", "GGML_VK_VISIBLE_DEVICES=1", "PATHS=x", "=x", "PATH",
	}
	if got := engine.CleanEnv(slices.Concat(dropped, kept)); !slices.Equal(got, kept) {
		t.Errorf("got %q, want %q", got, kept)
	}
}

func FuzzSafeNameIsGoodForFilesAndContainers(f *testing.F) {
	good := regexp.MustCompile(`^[a-zA-Z0-9._-]{9,57}$`)
	for _, seed := range []string{"org/m#0", "org-m#0", "", "../..", "\x00", strings.Repeat("é", 100)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, backend string) {
		name := engine.SafeName(backend)
		if !good.MatchString(name) || strings.HasPrefix(name, ".") {
			t.Errorf("%q becomes %q", backend, name)
		}
		if other := engine.SafeName(backend + "x"); other == name {
			t.Errorf("%q and %q share %q", backend, backend+"x", name)
		}
	})
}
