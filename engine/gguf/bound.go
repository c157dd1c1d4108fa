package gguf

import (
	"fmt"
	"math"
	"strings"
)

// Bounds of what a layer keeps of a token; published models are far below them.
const (
	maxHeads  = 1 << 14
	maxLength = 1 << 16 // numbers of a head
	maxWidth  = 1 << 24 // numbers of a token
)

// bound refuses the numbers that a reader would allocate or divide by, and those of the KV cache that no model has: cut off to
// the reader's own width they would be small ones, and the model would seem to fit.
func (w *walker) bound(name string, kind uint32, value float64) error {
	const u32 = 4
	most, bounded := mostOf(name)
	switch {
	case name == "general.alignment":
		if kind != u32 || value < 1 || value > 1<<20 || math.Mod(value, 8) != 0 {
			return fault("has an impossible alignment: download it again")
		}
		w.align = int64(value)
	case bounded && !(value >= 0 && value <= most):
		return fault(fmt.Sprintf("claims a %.40q of %g, more than any model: download it again", name, value))
	}
	return nil
}

// mostOf is the largest value of a key that has one. A list is bounded value by value.
func mostOf(name string) (most float64, bounded bool) {
	if name == "split.tensors.count" {
		return maxTensors, true
	}
	for _, b := range []struct {
		end  string
		most float64
	}{
		{"block_count", maxBlocks},
		{".attention.head_count", maxHeads}, {".attention.head_count_kv", maxHeads},
		{".attention.key_length", maxLength}, {".attention.key_length_mla", maxLength}, {".attention.key_length_swa", maxLength},
		{".attention.value_length", maxLength}, {".attention.value_length_mla", maxLength}, {".attention.value_length_swa", maxLength},
		{".embedding_length", maxWidth},
	} {
		if strings.HasSuffix(name, b.end) {
			return b.most, true
		}
	}
	return 0, false
}

// numbers reads a list of numbers that have bounds.
func (w *walker) numbers(name string, kind uint32, n uint64) error {
	for range n {
		value, err := w.number(kind)
		if err != nil {
			return err
		}
		if err := w.bound(name, kind, value); err != nil {
			return err
		}
	}
	return nil
}
