package plan

import (
	"fmt"

	"viiwork/engine"
	"viiwork/engine/gguf"
)

// Model is one model and what is wanted of it.
type Model struct {
	Name    string
	File    gguf.File    // without an Architecture nothing but its size is known
	Accel   engine.Accel // AccelNone = no cards, all in RAM
	Groups  [][]int      // the cards of each backend; without cards, or on Metal, one nil group a backend
	Slots   int          // of each backend
	Context int          // tokens of each slot
	Key     gguf.CacheType
	Value   gguf.CacheType
	Shares  []float64 // of each card of a backend; none = by the cards' memory
	Split   string    // layer (as is ""), row, none, tensor

	PromptCache int64 // bytes of RAM for each backend; negative = whatever is sensible
	Extra       int64 // bytes of further files loaded beside the model: a projector, a draft model
	Beside      Beside
	ByHand      bool // the owner's own flags place it: what is worked out here is no reason to refuse it
}

// Beside is what was measured on a loaded engine of this model and this kind of cards; the zero value is nothing.
type Beside struct {
	Bytes  int64 `json:"bytes"`  // that each card holds beside weights and KV cache, at the most
	Tokens int   `json:"tokens"` // of context in all slots together
}

// Bounds that keep sums of hostile figures from overflowing; no machine comes near them.
const (
	mostBytes  = 1 << 52
	mostSlots  = 1 << 8
	mostTokens = 1 << 24
	mostShare  = 1 << 30
)

// sane is the model with all figures within those bounds.
func (m Model) sane() Model {
	m.Slots = min(max(m.Slots, 1), mostSlots)
	m.Context = min(max(m.Context, 0), mostTokens)
	m.PromptCache = min(max(m.PromptCache, -1), mostBytes)
	m.Extra = min(max(m.Extra, 0), mostBytes)
	m.Beside.Bytes = min(max(m.Beside.Bytes, 0), mostBytes)
	m.Beside.Tokens = min(max(m.Beside.Tokens, 0), mostSlots*mostTokens)
	m.File.Size = min(max(m.File.Size, 0), mostBytes)
	return m
}

// beyond names a wish that no engine can be asked for, and that no sum is worked out of.
func (m Model) beyond() (key, text string) {
	switch {
	case m.Slots > mostSlots:
		return "parallel", fmt.Sprintf("%d slots are more than an engine has: %d at the most", m.Slots, mostSlots)
	case m.Context > mostTokens:
		return "context", fmt.Sprintf("%d tokens are more than any model reads: %d at the most", m.Context, mostTokens)
	case m.PromptCache > mostBytes:
		return "llamacpp.prompt_cache", fmt.Sprintf("%d bytes are more than any machine has", m.PromptCache)
	}
	return "", ""
}

// known tells whether the file says enough to work with.
func (m Model) known() bool { return m.File.Architecture != "" && len(m.File.Blocks) > 0 }

// batch is the tokens an engine computes at a time.
const batch = 512

// share is what one card of a backend holds.
type share struct {
	weights, kv, beside int64
}

func (s share) sum() int64 { return s.weights + s.kv + s.beside }

// shares spreads a backend over its cards, whose rooms are given, as the engine does.
func (m Model) shares(rooms []int64) []share {
	all := make([]share, len(rooms))
	ends := m.ends(rooms)
	on := func(place, of int) *share {
		for i, end := range ends {
			if float64(place)/float64(of) < end {
				return &all[i]
			}
		}
		return &all[len(all)-1]
	}
	n := len(m.File.Blocks)
	rest := m.File.Size - m.File.Input
	for i, b := range m.File.Blocks {
		s := on(i, n+1)
		s.weights = min(s.weights+b.Weights, mostBytes)
		s.kv = min(s.kv+int64(m.Slots)*b.KV(m.Context, m.Key, m.Value), mostBytes)
		rest -= b.Weights
	}
	switch output := on(n, n+1); {
	case n == 0: // nothing is known but the size
		spread(all, ends, m.File.Size)
	default:
		output.weights += max(rest, m.File.Output)
		output.beside += 4 * batch * int64(m.File.Vocabulary)
	}
	if m.Split == "row" || m.Split == "tensor" {
		gather(all, ends)
	}
	all[0].weights += m.Extra
	for i := range all {
		all[i].beside += m.working()
		if m.Beside.Bytes > 0 {
			more := max(m.Slots*m.Context-m.Beside.Tokens, 0)
			all[i].beside = m.Beside.Bytes + masks(more)
		}
	}
	return all
}

// working is the buffers of any card, without those of the output.
func (m Model) working() int64 {
	numbers := 8*float64(m.File.Width) + 3*float64(m.File.Wide)
	return int64(min(4*batch*numbers, mostBytes)) + masks(m.Slots*m.Context)
}

// masks say which of so many tokens each token of a batch sees.
func masks(tokens int) int64 { return 2 * batch * int64(tokens) }

// ends is where each card's part of the model ends, the whole being 1.
func (m Model) ends(rooms []int64) []float64 {
	parts := make([]float64, len(rooms))
	sum := 0.0
	for i := range parts {
		parts[i] = float64(rooms[i])
		if len(m.Shares) == len(rooms) {
			parts[i] = 0
			if m.Shares[i] > 0 { // and a number
				parts[i] = min(m.Shares[i], mostShare)
			}
		}
		sum += parts[i]
	}
	if m.Split == "none" || !(sum > 0) {
		for i := range parts {
			parts[i] = 1 // all on the first, or, with no room known, even
			if m.Split == "none" && i > 0 {
				parts[i] = 0
			}
		}
		sum = 1
		if m.Split != "none" {
			sum = float64(len(parts))
		}
	}
	end := 0.0
	for i := range parts {
		end += parts[i] / sum
		parts[i] = end
	}
	return parts
}

// spread puts bytes on cards by their parts.
func spread(all []share, ends []float64, bytes int64) {
	from := 0.0
	for i := range all {
		all[i].weights += int64(float64(bytes) * max(ends[i]-from, 0))
		from = ends[i]
	}
}

// gather turns a spread by layers into one by rows: weights by part, what is kept and computed on the first card.
func gather(all []share, ends []float64) {
	var whole share
	for i := range all {
		whole.weights += all[i].weights
		whole.kv += all[i].kv
		whole.beside += all[i].beside
		all[i] = share{}
	}
	all[0] = share{kv: whole.kv, beside: whole.beside}
	spread(all, ends, whole.weights)
}

// inMemory is what a backend takes of RAM beside weights when it has no card.
func (m Model) inMemory() int64 {
	s := m.shares([]int64{1})[0]
	return min(s.kv+s.beside, mostBytes)
}
