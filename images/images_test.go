package images_test

import (
	"strings"
	"testing"

	"viiwork/images"
)

func TestShortNamesStandForReferences(t *testing.T) {
	for name, want := range map[string]string{
		"cpu":                          "viiwork-engine:cpu",
		"rocm-gfx906":                  "viiwork-engine:rocm-gfx906",
		"cuda":                         "ghcr.io/ggml-org/llama.cpp:server-cuda",
		"rocm":                         "ghcr.io/ggml-org/llama.cpp:server-rocm",
		"vulkan":                       "ghcr.io/ggml-org/llama.cpp:server-vulkan",
		"registry.example/mine":        "registry.example/mine",
		"mine:1":                       "mine:1",
		"mine@sha256:0123456789abcdef": "mine@sha256:0123456789abcdef",
	} {
		if got, err := images.Resolve(name); err != nil || got != want {
			t.Errorf("Resolve(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestUnknownShortNameIsToldTheKnownOnes(t *testing.T) {
	for _, name := range []string{"cudda", ""} {
		_, err := images.Resolve(name)
		if err == nil {
			t.Fatalf("%q was taken for an image", name)
		}
		for _, known := range []string{"cpu", "cuda", "rocm", "vulkan"} {
			if !strings.Contains(err.Error(), known) {
				t.Errorf("the error for %q does not name %s: %v", name, known, err)
			}
		}
	}
}
