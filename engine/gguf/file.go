package gguf

import (
	"fmt"
	"strings"

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
	Quantisation string   // of most of its weights: "Q4_K_M", …
	Context      int      // tokens it was trained for
	Layers       int
	// KVPerToken is the bytes of KV cache one more token takes in 16-bit types. Sliding-window and recurrent layers
	// keep a fixed amount and count nothing.
	KVPerToken int64
	Embedding  bool // made for /v1/embeddings
	Rerank     bool // made for /v1/rerank
	Projector  bool // no model of its own: what turns pictures or sound into a model's tokens
	Tools      bool // its chat template speaks of tools

	Blocks     []Block // the layers, first to last
	Input      int64   // bytes of the embedding matrix, which an engine keeps in RAM
	Output     int64   // bytes of what follows the layers; the embedding matrix again where that is used for both
	Vocabulary int     // tokens
	Width      int     // numbers of a token between layers
	Wide       int     // numbers of a token at the widest place within a layer
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
	readable, w := true, weights{}
	for _, s := range shards {
		h, err := check(s)
		if err != nil {
			return File{}, err
		}
		f.Size += h.size
		readable = readable && !h.newTypes
		w.merge(h.weights)
	}
	if !readable {
		return f, nil
	}
	if err := f.interpret(w); err != nil {
		return File{}, fmt.Errorf("reading %s: its metadata makes no sense (%w): download it again or use another model", path, err)
	}
	return f, nil
}

// interpret fills in what the keys mean. The parser reports a value of an unexpected type by panicking, which is the
// file's fault and no defect of ours: here, at its border, it becomes an error.
func (f *File) interpret(w weights) (err error) {
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
	f.Quantisation = quantisation(meta)
	f.Context, f.Layers = sane(arch.MaximumContextLength), sane(arch.BlockCount)
	f.Rerank = arch.PoolingType == poolingRank
	f.Embedding = !f.Rerank && (!arch.AttentionCausal || arch.PoolingType != 0)
	f.Projector = meta.Architecture == "clip"
	if template, ok := parsed.Header.MetadataKV.Get("tokenizer.chat_template"); ok && template.ValueType == parser.GGUFMetadataValueTypeString {
		f.Tools = strings.Contains(template.ValueString(), "tools")
	}
	f.Input, f.Output, f.Vocabulary = w.input, w.output, w.vocabulary
	f.Width, f.Wide = sane(arch.EmbeddingLength), wide(arch)
	if !w.head && !f.Projector {
		f.Output += w.embedding
	}
	f.Blocks = blocks(arch, w)
	for _, b := range f.Blocks {
		if b.Window == 0 {
			f.KVPerToken += 2 * (b.Key + b.Value)
		}
	}
	return nil
}

// quantisation is the parser's word for the file's type, "" for one it does not know.
func quantisation(m parser.GGUFMetadata) string {
	name := strings.TrimPrefix(m.FileType.String(), "MOSTLY_")
	if name == "Unknown" || strings.ContainsAny(name, "(-") {
		return ""
	}
	return name
}

// sane drops counts no model has.
func sane(n uint64) int {
	if n > 1<<30 {
		return 0
	}
	return int(n)
}
