package llama

import (
	"strconv"
	"strings"

	"viiwork/engine"
)

// usualBatch is what the server itself computes at a time, where it does not gather several of them first.
const usualBatch = 512

// wish is one thing viiwork wants of an engine.
type wish struct {
	names []string // spellings over the builds, the best first; a build that knows none goes without
	must  bool     // a build that knows none cannot be used
	// values gives what follows the flag, and false when the flag is not wanted for these options.
	values func(engine.Build, engine.Options) ([]string, bool)
}

// modelWishes say what is served, in how many slots of which size.
func modelWishes() []wish {
	return []wish{
		{names: []string{"-m", "--model"}, must: true, values: func(_ engine.Build, o engine.Options) ([]string, bool) {
			return []string{o.Model.Path}, true
		}},
		{names: []string{"-a", "--alias"}, values: func(_ engine.Build, o engine.Options) ([]string, bool) {
			return []string{o.Model.Name}, true
		}},
		{names: []string{"-np", "--parallel"}, must: true, values: func(_ engine.Build, o engine.Options) ([]string, bool) {
			return []string{strconv.Itoa(o.Model.Parallel)}, true
		}},

		// The context of a slot. One pool cut by --kv-unified-per-slot makes slot files fit engines with another number of
		// slots; without that cut a unified pool overcommits (two long prompts lose both slots), so it stays off then.
		{names: []string{"-kvu"}, values: whenPool()},
		{names: []string{"--kv-unified-per-slot"}, values: func(b engine.Build, o engine.Options) ([]string, bool) {
			return []string{strconv.Itoa(o.Model.Context)}, hasPool(b)
		}},
		// By default a unified server empties idle slots at each new task; saving one then writes nothing and says 200.
		{names: []string{"--no-cache-idle-slots"}, values: whenPool()},
		{names: []string{"-c", "--ctx-size"}, values: func(b engine.Build, o engine.Options) ([]string, bool) {
			return []string{strconv.Itoa(o.Model.Context * o.Model.Parallel)}, !hasPool(b)
		}},

		{names: []string{"-fa", "--flash-attn"}, values: func(b engine.Build, _ engine.Options) ([]string, bool) {
			if takesValue(b, "-fa") {
				return []string{"on"}, true
			}
			return nil, true
		}},
		{names: []string{"--slot-save-path"}, values: func(_ engine.Build, o engine.Options) ([]string, bool) {
			return []string{o.SlotDir}, o.SlotDir != ""
		}},
		{names: []string{"--metrics"}, values: always()},
		// The default is 8 GiB of host RAM an engine, so it is always said.
		{names: []string{"--cache-ram", "-cram"}, values: func(_ engine.Build, o engine.Options) ([]string, bool) {
			return []string{strconv.FormatInt(mebibytes(o.Model.PromptCache), 10)}, true
		}},
	}
}

// privacyWishes see to it that nobody but the node reaches the engine, and the engine nothing.
func privacyWishes() []wish {
	return []wish{
		{names: []string{"--api-key-file"}, must: true, values: func(_ engine.Build, o engine.Options) ([]string, bool) {
			return []string{o.KeyFile}, o.KeyFile != ""
		}},
		// "none" is no origin any browser sends, unlike "null"; an empty list would do as well but vanishes in listings.
		{names: []string{"--cors-origins"}, values: always("none")},
		{names: []string{"--no-cors-credentials"}, values: always()},
		{names: []string{"--no-ui", "--no-webui"}, values: always()},
		{names: []string{"--offline"}, values: always()},
		// A flag without a value in older builds, and one that switches colours on.
		{names: []string{"--log-colors"}, values: func(b engine.Build, _ engine.Options) ([]string, bool) {
			return []string{"off"}, takesValue(b, "--log-colors")
		}},
	}
}

// hardwareWishes put the work where it belongs.
func hardwareWishes() []wish {
	return []wish{
		// More layers than any model has; "all" is not known to older builds.
		{names: []string{"-ngl", "--n-gpu-layers", "--gpu-layers"}, values: func(b engine.Build, o engine.Options) ([]string, bool) {
			if onCPU(o) {
				return []string{"0"}, firstKnown(b, []string{"-dev", "--device"}) == ""
			}
			return []string{"999"}, true
		}},
		// Also keeps single large operations off a card that belongs to another model.
		{names: []string{"-dev", "--device"}, values: func(_ engine.Build, o engine.Options) ([]string, bool) {
			return []string{"none"}, onCPU(o)
		}},
		{names: []string{"-sm", "--split-mode"}, values: func(_ engine.Build, o engine.Options) ([]string, bool) {
			return []string{orElse(o.Model.SplitMode, "layer")}, len(o.GPUs) > 1
		}},
		{names: []string{"-ts", "--tensor-split"}, values: func(_ engine.Build, o engine.Options) ([]string, bool) {
			return []string{proportions(o.Model.SplitWeights)}, len(o.GPUs) > 1 && len(o.Model.SplitWeights) > 0
		}},
		{names: []string{"-t", "--threads"}, values: func(_ engine.Build, o engine.Options) ([]string, bool) {
			return []string{strconv.Itoa(o.Threads)}, o.Threads > 0
		}},
		{names: []string{"-b", "--batch-size"}, values: batch()},
		{names: []string{"-ub", "--ubatch-size"}, values: batch()},
	}
}

// batch is the number of prompt tokens computed at a time, for both sizes the server knows. An owner who gives either
// gets neither of ours: the server cuts the one to the other.
//
// Where prefill is slow it is 512: a client that leaves is noticed between two batches, and the default of 2048 tokens
// takes long there. For embeddings it is a multiple of the slots: measured on 0.7.0, a model with mean pooling ends
// the server while it loads (GGML_ASSERT in ggml_mul_mat) when 3 slots do not divide the default of 512.
func batch() func(engine.Build, engine.Options) ([]string, bool) {
	return func(_ engine.Build, o engine.Options) ([]string, bool) {
		if gives(o.Model.Args, "-b", "--batch-size", "-ub", "--ubatch-size") {
			return nil, false
		}
		if gives(o.Model.Args, "--embedding", "--embeddings", "--rerank", "--reranking") {
			slots := min(o.Model.Parallel, usualBatch)
			return []string{strconv.Itoa(usualBatch / slots * slots)}, true
		}
		return []string{strconv.Itoa(usualBatch)}, onCPU(o) || o.Model.Accel == engine.AccelROCm
	}
}

func always(values ...string) func(engine.Build, engine.Options) ([]string, bool) {
	return func(engine.Build, engine.Options) ([]string, bool) { return values, true }
}

func whenPool() func(engine.Build, engine.Options) ([]string, bool) {
	return func(b engine.Build, _ engine.Options) ([]string, bool) { return nil, hasPool(b) }
}

// hasPool says whether a build can cap each slot of one unified pool.
func hasPool(b engine.Build) bool { return b.Flags["-kvu"] && b.Flags["--kv-unified-per-slot"] }

// onCPU says whether a backend runs without a card. A Mac's GPU has no index, so its backends list none.
func onCPU(o engine.Options) bool { return len(o.GPUs) == 0 && o.Model.Accel != engine.AccelMetal }

// takesValue says whether a flag of this build wants a value; where the help could not tell, today's form is assumed.
func takesValue(b engine.Build, name string) bool { return b.Values == nil || b.Values[name] > 0 }

// mebibytes rounds up, so that a small cache is not switched off.
func mebibytes(bytes int64) int64 { return (max(bytes, 0) + 1<<20 - 1) >> 20 }

func proportions(weights []float64) string {
	parts := make([]string, len(weights))
	for i, w := range weights {
		parts[i] = strconv.FormatFloat(w, 'g', -1, 64)
	}
	return strings.Join(parts, ",")
}

func orElse(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
