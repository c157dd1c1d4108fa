package gguf

import (
	"strconv"
	"strings"
)

// tensor is one line of a file's list of tensors.
type tensor struct {
	name  string // "" for one of no use here
	rows  uint64 // its second dimension
	bytes int64
	end   int64 // counted from the start of the data
	known bool  // its type is; without it bytes is 0
}

// weights adds up the tensors of a model by where an engine puts them. No sum is ever larger than the files: tensors that
// overlap are a lie, and are counted until the files' bytes are used up.
type weights struct {
	left       int64 // bytes not yet counted
	layers     map[int]int64
	input      int64 // all that is looked up by token
	embedding  int64 // of input, the matrix that may serve as the output as well
	output     int64
	head       bool // there is an output matrix
	vocabulary int
}

func (w *weights) add(t tensor) {
	bytes := min(t.bytes, w.left)
	w.left -= bytes
	switch layer, ok := layerOf(t.name); {
	case ok:
		if w.layers == nil {
			w.layers = map[int]int64{}
		}
		w.layers[layer] += bytes
	case t.name == "token_embd.weight":
		w.input += bytes
		w.embedding, w.vocabulary = bytes, sane(t.rows)
	case strings.Contains(t.name, "token_embd."), strings.HasPrefix(t.name, "position_embd."):
		w.input += bytes
	default:
		w.output += bytes
		w.head = w.head || t.name == "output.weight"
	}
}

// merge adds another shard's tensors.
func (w *weights) merge(o weights) {
	for layer, bytes := range o.layers {
		if w.layers == nil {
			w.layers = map[int]int64{}
		}
		w.layers[layer] += bytes
	}
	w.input += o.input
	w.output += o.output
	w.head = w.head || o.head
	if o.embedding > 0 {
		w.embedding, w.vocabulary = o.embedding, o.vocabulary
	}
}

// layerOf reads the number in blk.N.
func layerOf(name string) (int, bool) {
	rest, ok := strings.CutPrefix(name, "blk.")
	number, _, dotted := strings.Cut(rest, ".")
	n, err := strconv.ParseUint(number, 10, 32)
	return int(n), ok && dotted && err == nil && n < maxBlocks
}
