package gguf

import (
	"fmt"

	parser "github.com/gpustack/gguf-parser-go"
)

// File is what a model file, with all its shards, says about itself. A field that is zero is not known; all but Path,
// Shards and Size are unknown in a file with tensor types newer than this reader.
type File struct {
	Path         string   // as given to Read: the first shard
	Shards       []string // all files of the model, Path included
	Size         int64    // bytes of all shards
	Architecture string   // "llama", "qwen3moe", …
	Name         string   // the model's own name
	Context      int      // tokens it was trained for
	Layers       int
	// KVPerToken is the bytes of KV cache one more token takes in 16-bit types. Sliding-window and recurrent layers
	// keep a fixed amount and count nothing.
	KVPerToken int64
	Embedding  bool // made for /v1/embeddings
	Rerank     bool // made for /v1/rerank
}

// poolingRank is the pooling type of models with a ranking head.
const poolingRank = 4

// Read checks the model file at path and reads what it says. Each error names the file, the fault and the way out.
func Read(path string) (File, error) {
	shards, err := findShards(path)
	if err != nil {
		return File{}, err
	}
	f := File{Path: path, Shards: shards}
	readable := true
	for _, s := range shards {
		h, err := check(s)
		if err != nil {
			return File{}, err
		}
		f.Size += h.size
		readable = readable && !h.newTypes
	}
	if !readable {
		return f, nil
	}
	if err := f.interpret(); err != nil {
		return File{}, fmt.Errorf("reading %s: its metadata makes no sense (%w): download it again or use another model", path, err)
	}
	return f, nil
}

// interpret fills in what the keys mean. The parser reports a value of an unexpected type by panicking, which is the
// file's fault and no defect of ours: here, at its border, it becomes an error.
func (f *File) interpret() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%.200v", p)
		}
	}()
	parsed, err := parser.ParseGGUFFile(f.Path, parser.SkipLargeMetadata())
	if err != nil {
		return err
	}
	meta, arch := parsed.Metadata(), parsed.Architecture()
	f.Architecture, f.Name = meta.Architecture, meta.Name
	f.Context, f.Layers = sane(arch.MaximumContextLength), sane(arch.BlockCount)
	f.KVPerToken = kvPerToken(arch)
	f.Rerank = arch.PoolingType == poolingRank
	f.Embedding = !f.Rerank && (!arch.AttentionCausal || arch.PoolingType != 0)
	return nil
}

// kvPerToken sums, over the layers that grow with the context, heads × (key + value) × 2 bytes. Models with compressed
// attention (MLA) keep one key of the compressed length and no value.
func kvPerToken(a parser.GGUFArchitecture) int64 {
	width := int64(a.AttentionKeyLength) + int64(a.AttentionValueLength)
	if a.AttentionKeyLengthMLA > 0 {
		width = int64(a.AttentionKeyLength)
	}
	var heads int64
	for layer := range sane(a.BlockCount) {
		if grows(a, layer) {
			heads += int64(headsOf(a, layer))
		}
	}
	if width > 1<<20 || heads > 1<<20 {
		return 0
	}
	return heads * width * 2
}

func grows(a parser.GGUFArchitecture, layer int) bool {
	if w := a.AttentionSlidingWindowLayers; layer < len(w) && w[layer] && a.AttentionSlidingWindow > 0 {
		return false
	}
	if shared := int(a.AttentionKVFromStartLayerCount); shared > 0 && layer >= shared {
		return false // reuses the cache of an earlier layer
	}
	if n := int(a.FullAttentionInterval); a.AttentionHybrid && n > 0 {
		return (layer+1)%n == 0
	}
	return !a.AttentionRecurrent
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

// sane drops counts no model has.
func sane(n uint64) int {
	if n > 1<<30 {
		return 0
	}
	return int(n)
}
