package gguf_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"viiwork/engine/enginetest"
	"viiwork/engine/gguf"
)

// headerBuilder writes headers that no honest program would.
type headerBuilder struct {
	keys, infos bytes.Buffer
	nKeys, nInf uint64
	data        int
}

func newHeader() *headerBuilder { return &headerBuilder{} }

func put(b *bytes.Buffer, values ...any) {
	for _, v := range values {
		if s, ok := v.(string); ok {
			put(b, uint64(len(s)))
			b.WriteString(s)
			continue
		}
		_ = binary.Write(b, binary.LittleEndian, v) // a Buffer takes everything
	}
}

func (h *headerBuilder) raw(values ...any)         { put(&h.keys, values...); h.nKeys++ }
func (h *headerBuilder) str(key, value string)     { h.raw(key, uint32(8), value) }
func (h *headerBuilder) num(key string, v uint32)  { h.raw(key, uint32(4), v) }
func (h *headerBuilder) list(key string, v ...any) { h.raw(append([]any{key, uint32(9)}, v...)...) }
func (h *headerBuilder) tensor(name string, kind uint32, dims ...uint64) {
	put(&h.infos, name, uint32(len(dims)), dims, kind, uint64(0))
	h.nInf++
	h.data += 64
}

func (h *headerBuilder) bytes() []byte {
	var out bytes.Buffer
	out.WriteString("GGUF")
	put(&out, uint32(3), h.nInf, h.nKeys)
	out.Write(h.keys.Bytes())
	out.Write(h.infos.Bytes())
	out.Write(make([]byte, 32+h.data))
	return out.Bytes()
}

func TestHostileHeadersAreRefused(t *testing.T) {
	cases := map[string]struct {
		build func(h *headerBuilder)
		want  string
	}{
		"layers without end": {func(h *headerBuilder) {
			h.str("general.architecture", "llama")
			h.num("llama.block_count", math.MaxUint32)
			h.num("llama.feed_forward_length", 1)
		}, "more than any model"},
		"layers as a float": {func(h *headerBuilder) {
			h.raw("llama.block_count ", uint32(12), float64(1e18))
		}, "more than any model"},
		"layers not a number": {func(h *headerBuilder) {
			h.raw("llama.block_count", uint32(12), math.NaN())
		}, "more than any model"},
		"layers as text": {func(h *headerBuilder) {
			h.str("general.architecture", "llama")
			h.str("llama.block_count", "many")
		}, "its metadata makes no sense"},
		"tensors of all splits": {func(h *headerBuilder) { h.num("split.tensors.count", math.MaxUint32) }, "more than any model"},
		"no alignment":          {func(h *headerBuilder) { h.num("general.alignment", 0) }, "impossible alignment"},
		"alignment as text":     {func(h *headerBuilder) { h.str("general.alignment", "32") }, "its metadata makes no sense"},
		"long key":              {func(h *headerBuilder) { h.num(strings.Repeat("k", 2000), 1) }, "a key of 2000 bytes"},
		"long text":             {func(h *headerBuilder) { h.raw("a", uint32(8), uint64(math.MaxUint64)) }, "a text of"},
		"text past the end":     {func(h *headerBuilder) { h.raw("a", uint32(8), uint64(1<<20)) }, "is truncated"},
		"long list":             {func(h *headerBuilder) { h.list("a.attention.head_count_kv", uint32(0), uint64(1<<40)) }, "a list of"},
		"list of lists":         {func(h *headerBuilder) { h.list("a", uint32(9), uint64(1), uint32(9), uint64(1)) }, "a list of 1 values of type 9"},
		"unknown value":         {func(h *headerBuilder) { h.raw("a", uint32(99), uint64(0)) }, "unknown type 99"},
		"many keys":             {func(h *headerBuilder) { h.nKeys = 1 << 40 }, "more than any model"},
		"many tensors":          {func(h *headerBuilder) { h.nInf = 1 << 60 }, "more than any model"},
		"no dimensions":         {func(h *headerBuilder) { h.tensor("t", 0) }, "a tensor of 0 dimensions"},
		"many dimensions":       {func(h *headerBuilder) { h.tensor("t", 0, 1, 1, 1, 1, 1) }, "a tensor of 5 dimensions"},
		"heads below zero": {func(h *headerBuilder) {
			h.str("general.architecture", "llama")
			h.raw("llama.attention.head_count", uint32(5), int32(-8))
		}, "more than any model"},
		"heads of a layer below zero": {func(h *headerBuilder) {
			h.str("general.architecture", "llama")
			h.list("llama.attention.head_count_kv", uint32(5), uint64(2), int32(8), int32(-8))
		}, "more than any model"},
		"keys that wrap": {func(h *headerBuilder) {
			h.str("general.architecture", "llama")
			h.raw("llama.attention.key_length", uint32(10), uint64(1<<32+1))
		}, "more than any model"},
		"width without end": {func(h *headerBuilder) { h.num("llama.embedding_length", math.MaxUint32) }, "more than any model"},
		"wrapping size":     {func(h *headerBuilder) { h.tensor("t", 0, 1<<32, 1<<32, 4) }, "larger than any file"},
		"wrapping bytes":    {func(h *headerBuilder) { h.tensor("t", 0, 1<<62) }, "larger than any file"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHeader()
			c.build(h)
			_, err := gguf.Read(save(t, "m.gguf", h.bytes()))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestNewTensorTypesAreTheEnginesBusiness(t *testing.T) {
	h := newHeader()
	h.str("general.architecture", "llama")
	h.tensor("t", 900, 8)
	data := h.bytes()
	f, err := gguf.Read(save(t, "m.gguf", data))
	if err != nil {
		t.Fatal(err)
	}
	if f.Size != int64(len(data)) || f.Architecture != "" {
		t.Errorf("got %+v, want a size and nothing else known", f)
	}
}

func TestRankingAndEmbeddingModelsAreTold(t *testing.T) {
	for pooling, want := range map[uint32][2]bool{0: {false, false}, 1: {true, false}, 3: {true, false}, 4: {false, true}} {
		h := newHeader()
		h.str("general.architecture", "qwen3")
		h.num("qwen3.pooling_type", pooling)
		f, err := gguf.Read(save(t, "m.gguf", h.bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]bool{f.Embedding, f.Rerank}; got != want {
			t.Errorf("pooling %d: embedding and rerank are %v, want %v", pooling, got, want)
		}
	}
}

// TestChatTemplatesTellOfTools: one that is no text tells nothing, and is the engine's to judge.
func TestChatTemplatesTellOfTools(t *testing.T) {
	for template, want := range map[any]bool{nil: false, "{{ messages }}": false, "{%- if tools %}{{ tools }}{% endif %}": true, uint32(7): false} {
		h := newHeader()
		h.str("general.architecture", "llama")
		switch template := template.(type) {
		case string:
			h.str("tokenizer.chat_template", template)
		case uint32:
			h.num("tokenizer.chat_template", template)
		}
		f, err := gguf.Read(save(t, "m.gguf", h.bytes()))
		if err != nil || f.Tools != want {
			t.Errorf("%v: got %v, %v, want %v", template, f.Tools, err, want)
		}
	}
}

func FuzzReadNeverPanics(f *testing.F) {
	path := filepath.Join(f.TempDir(), "seed.gguf")
	if err := enginetest.WriteGGUF(path, enginetest.GGUFOptions{Layers: 1}); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole[:min(len(whole), 16<<10)])
	h := newHeader()
	h.str("general.architecture", "llama")
	h.num("llama.block_count", 2)
	h.list("llama.attention.head_count_kv", uint32(4), uint64(2), uint32(2), uint32(0))
	h.tensor("blk.0.attn_q.weight", 1, 4, 4)
	f.Add(h.bytes())
	for _, arch := range []string{"deepseek2", "gemma3", "qwen3next", "mamba", "bert", "clip"} {
		f.Add(layers(arch, 3, map[string]uint32{
			"attention.head_count": 8, "attention.key_length": 64, "attention.key_length_mla": 32, "embedding_length": 256,
			"full_attention_interval": 3, "ssm.inner_size": 64, "ssm.state_size": 16, "attention.sliding_window": 256, "pooling_type": 3,
		}).bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(t.TempDir(), "m.gguf")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := gguf.Read(file)
		if err == nil && (got.Size != int64(len(data)) || got.KVPerToken < 0 || got.Context < 0 || got.Layers < 0) {
			t.Errorf("accepted with impossible figures: %+v", got)
		}
		sum := got.Input
		for _, b := range got.Blocks {
			if sum += b.Weights; b.KV(1<<24, "f32", "f32") < 0 || b.Weights < 0 {
				t.Errorf("an impossible layer: %+v", b)
			}
		}
		if sum < 0 || sum > got.Size || got.Output < 0 || got.Wide < 0 || got.Vocabulary < 0 {
			t.Errorf("impossible weights: %+v", got)
		}
	})
}

// TestALargeHeadIsCounted: a length that follows from others has no bound of its own, and is not taken for none.
func TestALargeHeadIsCounted(t *testing.T) {
	f, err := gguf.Read(save(t, "m.gguf", layers("llama", 1, map[string]uint32{"attention.head_count": 1, "embedding_length": 1 << 24}).bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if kv := f.Blocks[0].KV(1, "", ""); kv < 1<<25 {
		t.Errorf("a token takes %d bytes", kv)
	}
}

// TestLayersWithoutEndAreCounted: a tensor of the thousand-millionth layer adds to what is there.
func TestLayersWithoutEndAreCounted(t *testing.T) {
	h := layers("llama", 1, nil)
	h.tensor("blk.1000000000.attn_q.weight", 0, 4)
	f, err := gguf.Read(save(t, "m.gguf", h.bytes()))
	if err != nil || len(f.Blocks) != 1 || f.Output < 16 {
		t.Errorf("%+v, %v", f, err)
	}
}
