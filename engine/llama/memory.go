package llama

import (
	"slices"

	"viiwork/engine"
)

// Memory is what the owner's own flags and variables change about the memory that an engine takes.
type Memory struct {
	Key, Value string   // types of the KV cache; "" = the engine's own, f16
	Files      []string // loaded beside the model: a projector, a draft model
	ByHand     bool     // they also decide what is put where: nothing worked out elsewhere holds
}

// MemoryOf reads them. A flag that the server reads twice counts as it is read last, as there; a variable counts without its
// flag.
func MemoryOf(m engine.Model) Memory {
	last := func(variable string, names ...string) string {
		value := m.Env["LLAMA_ARG_"+variable]
		for i, arg := range m.Args {
			if slices.Contains(names, flagOf(arg)) {
				value = valueAt(m.Args, i)
			}
		}
		return value
	}
	memory := Memory{
		Key:   last("CACHE_TYPE_K", "-ctk", "--cache-type-k"),
		Value: last("CACHE_TYPE_V", "-ctv", "--cache-type-v"),
	}
	for _, file := range []string{
		last("MMPROJ", "-mm", "--mmproj"),
		last("MODEL_DRAFT", "-md", "--model-draft", "--spec-draft-model"),
	} {
		if file != "" {
			memory.Files = append(memory.Files, file)
		}
	}
	memory.ByHand = gives(m.Args, placing()...) || slices.ContainsFunc(placingVariables(), func(name string) bool {
		_, set := m.Env["LLAMA_ARG_"+name]
		return set
	})
	return memory
}

// valueAt is what follows the flag at i, in the same element or in the next.
func valueAt(args []string, i int) string {
	for at, r := range args[i] {
		if r == '=' {
			return args[i][at+1:]
		}
	}
	if i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

// placing are the flags that put parts of a model elsewhere, or make its buffers larger or smaller.
func placing() []string {
	return []string{
		"-ngl", "--gpu-layers", "--n-gpu-layers", "-dev", "--device", "-sm", "--split-mode", "-ts", "--tensor-split", "-mg", "--main-gpu",
		"-ot", "--override-tensor", "-cmoe", "--cpu-moe", "-ncmoe", "--n-cpu-moe", "-nkvo", "--no-kv-offload", "--swa-full", "--rpc",
		"--no-mmproj-offload", "-ub", "--ubatch-size", "-b", "--batch-size", "-fa", "--flash-attn",
	}
}

func placingVariables() []string {
	return []string{
		"N_GPU_LAYERS", "DEVICE", "SPLIT_MODE", "TENSOR_SPLIT", "MAIN_GPU", "OVERRIDE_TENSOR", "CPU_MOE", "N_CPU_MOE",
		"KV_OFFLOAD", "NO_KV_OFFLOAD", "SWA_FULL", "RPC", "MMPROJ_OFFLOAD", "NO_MMPROJ_OFFLOAD", "UBATCH", "BATCH", "FLASH_ATTN",
	}
}
