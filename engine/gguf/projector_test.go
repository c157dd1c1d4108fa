package gguf_test

import (
	"testing"

	"viiwork/engine/gguf"
)

func TestProjectorsArePairedByName(t *testing.T) {
	beside := []string{"/m/mmproj-gemma-3-12b-it-f16.gguf", "/m/mmproj-gemma-3-4b-it-f16.gguf", "/m/mmproj-gemma-3.gguf", "/other/mmproj-F16.gguf", "/m/gemma-3-4b-it-Q4_K_M.gguf"}
	for model, want := range map[string]string{
		"/m/gemma-3-12b-it-Q4_K_M.gguf": "/m/mmproj-gemma-3-12b-it-f16.gguf",
		"/m/gemma-3-4b-it-Q4_K_M.gguf":  "/m/mmproj-gemma-3-4b-it-f16.gguf",
		"/m/gemma-3-27b-it-Q8_0.gguf":   "/m/mmproj-gemma-3.gguf",
		"/m/qwen.gguf":                  "",
		"/other/anything.gguf":          "/other/mmproj-F16.gguf",
	} {
		if got := gguf.ProjectorFor(model, beside); got != want {
			t.Errorf("%s: got %q, want %q", model, got, want)
		}
	}
	for _, name := range []string{"mmproj-F16.gguf", "mmproj-model-f16.gguf", "mmproj.gguf", "mmproj-BF16.gguf", "x.mmproj-Q8_0.gguf", "x-mmproj-f16.gguf"} {
		beside := []string{"/m/" + name}
		if got := gguf.ProjectorFor("/m/x-Q4_K_M.gguf", beside); got != beside[0] {
			t.Errorf("%s is not taken for the model beside it", name)
		}
	}
}
