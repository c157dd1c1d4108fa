package gguf

import (
	"slices"

	parser "github.com/gpustack/gguf-parser-go"
)

// Block is one layer: what it weighs and what it keeps of each conversation.
type Block struct {
	Weights    int64 // bytes
	Key, Value int64 // numbers kept of each token; 0 = none
	Window     int   // only of so many last tokens; 0 = of all
	State      int64 // bytes kept of a conversation whatever its length
}

// CacheType is the engine's name for the type in which keys or values are kept: f16, q8_0, …
type CacheType string

// bytes of n numbers. An unknown type counts as the usual one, which has more than all small ones.
func (t CacheType) bytes(n float64) float64 {
	switch t {
	case "f32":
		return n * 4
	case "q8_0":
		return n * 34 / 32
	case "q5_1":
		return n * 24 / 32
	case "q5_0":
		return n * 22 / 32
	case "q4_1":
		return n * 20 / 32
	case "q4_0", "iq4_nl":
		return n * 18 / 32
	}
	return n * 2
}

// A window layer holds, beside the window, the tokens that are computed at a time; engines round cells up.
const (
	windowBatch = 512
	cellsAtOnce = 256
	maxBlockKV  = 1 << 40 // no layer of any model keeps a tebibyte; it bounds all sums
)

// KV is the bytes that one conversation of so many tokens takes in this layer.
func (b Block) KV(tokens int, key, value CacheType) int64 {
	if b.Window > 0 {
		held := (b.Window + windowBatch + cellsAtOnce - 1) / cellsAtOnce * cellsAtOnce
		tokens = min(tokens, held)
	}
	kv := key.bytes(float64(b.Key)*float64(tokens)) + value.bytes(float64(b.Value)*float64(tokens))
	return int64(min(kv, maxBlockKV)) + min(b.State, maxBlockKV)
}

// blocks joins what the keys say of the layers with what their tensors weigh. Where the two differ in number the keys are
// right; tensors beyond them count to the last layer, so that nothing is lost.
func blocks(a parser.GGUFArchitecture, w weights) []Block {
	n := min(sane(a.BlockCount), maxBlocks)
	if n == 0 {
		return nil
	}
	all := make([]Block, n)
	for i := range all {
		attends, recurs := kindOf(a, i)
		if attends && !cacheless(a) {
			all[i].Key, all[i].Value, all[i].Window = attention(a, i)
		}
		if recurs {
			all[i].State = state(a)
		}
	}
	for layer, bytes := range w.layers {
		all[min(layer, n-1)].Weights += bytes
	}
	return all
}

// cacheless models read a text at once, both ways, and keep nothing. The parser also calls those with pooling by last
// token or rank not causal; they are, and keep a cache.
func cacheless(a parser.GGUFArchitecture) bool { return !a.AttentionCausal && a.PoolingType <= 2 }

// kindOf tells whether a layer keeps something of each token, and whether it keeps a state of constant size.
func kindOf(a parser.GGUFArchitecture, layer int) (attends, recurs bool) {
	if shared := int(a.AttentionKVFromStartLayerCount); shared > 0 && layer >= shared {
		return false, false // uses the cache of an earlier layer
	}
	switch n := int(a.FullAttentionInterval); {
	case a.AttentionHybrid && slices.Contains(a.AttentionHeadCountKVs, 0):
		attends = headsOf(a, layer) > 0
		return attends, !attends
	case a.AttentionHybrid && n > 1:
		attends = (layer+1)%n == 0
		return attends, !attends
	case a.AttentionHybrid: // both in every layer, as far as anybody says
		return true, true
	}
	return !a.AttentionRecurrent, a.AttentionRecurrent
}

// attention gives the numbers a layer keeps of a token: heads × length, of keys and of values. Models with compressed
// attention (MLA) keep one key of the compressed length and no value.
func attention(a parser.GGUFArchitecture, layer int) (key, value int64, window int) {
	k, v := a.AttentionKeyLength, a.AttentionValueLength
	if w := a.AttentionSlidingWindowLayers; layer < len(w) && w[layer] {
		window = sane(a.AttentionSlidingWindow)
	}
	if window > 0 && a.AttentionKeyLengthSWA > 0 {
		k = a.AttentionKeyLengthSWA
	}
	if window > 0 && a.AttentionValueLengthSWA > 0 {
		v = a.AttentionValueLengthSWA
	}
	if a.AttentionKeyLengthMLA > 0 {
		v = 0
	}
	heads := int64(min(headsOf(a, layer), maxHeads))
	return heads * int64(min(k, maxWidth)), heads * int64(min(v, maxWidth)), window
}

func headsOf(a parser.GGUFArchitecture, layer int) int {
	if len(a.AttentionHeadCountKVs) > 0 {
		if layer < len(a.AttentionHeadCountKVs) {
			return sane(a.AttentionHeadCountKVs[layer])
		}
		return 0
	}
	return sane(a.AttentionHeadCountKV)
}

// state is what a recurrent layer keeps of a conversation, in bytes: its last inputs and its matrix, both 32-bit.
func state(a parser.GGUFArchitecture) int64 {
	width, heads := float64(a.EmbeddingLength), float64(a.AttentionHeadCount)
	var inputs, matrix float64
	switch head, kernel := float64(a.KDAHeadDim), float64(a.SSMConvolutionKernel); {
	case a.RWKVHeadSize > 0:
		inputs, matrix = float64(a.RWKVTokenShiftCount)*width, float64(a.RWKVHeadSize)*width
	case a.ShortConvLCache > 0:
		inputs = float64(a.ShortConvLCache-1) * width
	case head > 0:
		inputs, matrix = 3*max(kernel-1, 2)*heads*head, head*head*heads
	default:
		size := float64(a.SSMStateSize)
		inputs = max(kernel-1, 0) * (float64(a.SSMInnerSize) + 2*float64(a.SSMGroupCount)*size)
		matrix = size * float64(a.SSMInnerSize)
	}
	return int64(min(4*(inputs+matrix), maxBlockKV))
}

// wide is how many numbers of a token stand side by side at the widest place of a layer.
func wide(a parser.GGUFArchitecture) int {
	feed := uint64(0)
	for _, n := range a.FeedForwardLength {
		feed = max(feed, n)
	}
	experts := uint64(a.ExpertUsedCount) * uint64(a.ExpertFeedForwardLength)
	return sane(max(feed, experts+uint64(a.ExpertSharedFeedForwardLength)))
}
