package plan_test

import (
	"strconv"
	"strings"

	"viiwork/engine"
	"viiwork/engine/gguf"
	"viiwork/engine/plan"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// cards are n equal ones, from index from on.
func cards(accel engine.Accel, name string, from, n int, memory int64) []plan.Card {
	var all []plan.Card
	for i := range n {
		all = append(all, plan.Card{Accel: accel, Index: from + i, Name: name, Memory: memory})
	}
	return all
}

// shape is a model as its file describes it.
type shape struct {
	arch          string
	layers        int
	weights       int64 // of all layers
	key, value    int64 // numbers of a token in a layer that grows
	window        int
	everyNth      int   // with window or state: one layer in so many sees everything
	state         int64 // of the other layers
	context       int
	width, wide   int
	vocabulary    int
	input, output int64
}

func (s shape) file(path string) gguf.File {
	f := gguf.File{
		Path: path, Architecture: s.arch, Context: s.context, Layers: s.layers, Width: s.width, Wide: s.wide,
		Vocabulary: s.vocabulary, Input: s.input, Output: s.output, Size: s.weights + s.input + s.output,
	}
	for i := range s.layers {
		b := gguf.Block{Weights: s.weights / int64(s.layers), Key: s.key, Value: s.value}
		if s.everyNth > 0 && (i+1)%s.everyNth != 0 {
			b.Window = s.window
			if s.state > 0 {
				b.Key, b.Value, b.State = 0, 0, s.state
			}
		}
		f.Blocks = append(f.Blocks, b)
	}
	return f
}

// shapes are the models that machines are planned for, roughly as published.
func shapes() map[string]gguf.File {
	embedding := shape{arch: "qwen3", layers: 28, weights: 420 * mib, key: 1024, value: 1024,
		context: 32768, width: 1024, wide: 3072, vocabulary: 151669, input: 160 * mib, output: 160 * mib}.file("embedding.gguf")
	embedding.Embedding = true
	return map[string]gguf.File{
		"embedding-600M": embedding,
		"dense-27B-Q4": shape{arch: "qwen35", layers: 64, weights: 15 * gib, key: 1024, value: 1024, everyNth: 4, state: 3 * mib,
			context: 262144, width: 5120, wide: 17408, vocabulary: 248320, input: 700 * mib, output: 1000 * mib}.file("dense.gguf"),
		"moe-30B-A3B-Q4": shape{arch: "qwen3moe", layers: 48, weights: 17 * gib, key: 512, value: 512,
			context: 262144, width: 2048, wide: 6144, vocabulary: 151936, input: 170 * mib, output: 250 * mib}.file("moe.gguf"),
		"swa-12B-Q4": shape{arch: "gemma3", layers: 48, weights: 6 * gib, key: 2048, value: 2048, window: 1024, everyNth: 6,
			context: 131072, width: 3840, wide: 15360, vocabulary: 262144, input: 780 * mib, output: 780 * mib}.file("swa.gguf"),
		"mla-16B-Q4": shape{arch: "deepseek2", layers: 27, weights: 9 * gib, key: 576,
			context: 163840, width: 2048, wide: 10944, vocabulary: 102400, input: 115 * mib, output: 165 * mib}.file("mla.gguf"),
		"huge-400GB": shape{arch: "deepseek2", layers: 61, weights: 398 * gib, key: 576,
			context: 163840, width: 7168, wide: 18432, vocabulary: 129280, input: 1 * gib, output: 1 * gib}.file("huge.gguf"),
	}
}

// machines are one of each kind.
func machines() map[string]plan.Machine {
	display := cards(engine.AccelCUDA, "NVIDIA GeForce RTX 5090", 0, 2, 32607*mib)
	display[0].Display = true
	igpu := plan.Card{Accel: engine.AccelROCm, Index: 4, Name: "AMD renoir (gfx90c)", Memory: 512 * mib, Unfit: "it is part of the processor"}
	return map[string]plan.Machine{
		"gfx906x4-igpu": {Cards: append(cards(engine.AccelROCm, "AMD vega20 (gfx906)", 0, 4, 16368*mib), igpu), Memory: 64 * gib},
		"rtx-display":   {Cards: display, Memory: 96 * gib},
		"gb10":          {Cards: []plan.Card{{Accel: engine.AccelCUDA, Name: "NVIDIA GB10", Shared: true}}, Memory: 119 * gib},
		"m3-ultra":      {Cards: []plan.Card{{Accel: engine.AccelMetal, Name: "Apple M3 Ultra", Shared: true, Memory: 475140 * mib}}, Memory: 512 * gib},
		"wsl":           {Cards: cards(engine.AccelCUDA, "NVIDIA GeForce GTX 1650 Ti", 0, 1, 4096*mib), Memory: 16 * gib},
		"no-gpu":        {Memory: 32 * gib},
	}
}

// scan reads one number in the place of %d.
func scan(text, form string, n *int) bool {
	before, after, _ := strings.Cut(form, "%d")
	rest, ok := strings.CutPrefix(text, before)
	if after != "" {
		number, _, found := strings.Cut(rest, after)
		rest, ok = number, ok && found
	}
	number, err := strconv.Atoi(rest)
	*n = number
	return ok && err == nil
}
