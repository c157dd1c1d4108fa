package llama_test

import (
	"reflect"
	"strings"
	"testing"

	"viiwork/engine"
	"viiwork/engine/llama"
)

func TestTheOwnersFlagsTellWhatChangesMemory(t *testing.T) {
	for _, c := range []struct {
		args string
		env  map[string]string
		want llama.Memory
	}{
		{"", nil, llama.Memory{}},
		{"--jinja --temp 0.5", nil, llama.Memory{}},
		{"-ctk q8_0 --cache-type-v=q4_0", nil, llama.Memory{Key: "q8_0", Value: "q4_0"}},
		{"--cache_type_k q8_0 -ctk f16", nil, llama.Memory{Key: "f16"}},
		{"", map[string]string{"LLAMA_ARG_CACHE_TYPE_K": "q8_0"}, llama.Memory{Key: "q8_0"}},
		{"-ctk f16", map[string]string{"LLAMA_ARG_CACHE_TYPE_K": "q8_0"}, llama.Memory{Key: "f16"}},
		{"--mmproj a.gguf -md=b.gguf", nil, llama.Memory{Files: []string{"a.gguf", "b.gguf"}}},
		{"-ctk", nil, llama.Memory{}},
		{"--n-cpu-moe 20", nil, llama.Memory{ByHand: true}},
		{"-ngl=10", nil, llama.Memory{ByHand: true}},
		{"", map[string]string{"LLAMA_ARG_N_GPU_LAYERS": "10"}, llama.Memory{ByHand: true}},
	} {
		if got := llama.MemoryOf(engine.Model{Args: strings.Fields(c.args), Env: c.env}); !reflect.DeepEqual(got, c.want) {
			t.Errorf("args %q, env %v: got %+v, want %+v", c.args, c.env, got, c.want)
		}
	}
}
