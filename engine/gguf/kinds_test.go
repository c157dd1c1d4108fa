package gguf_test

import (
	"fmt"
	"testing"

	"viiwork/engine/gguf"
)

// header of a model with n layers of 1000 F32 weights each.
func layers(arch string, n int, keys map[string]uint32) *headerBuilder {
	h := newHeader()
	h.str("general.architecture", arch)
	h.num(arch+".block_count", uint32(n))
	for key, v := range keys {
		h.num(arch+"."+key, v)
	}
	h.tensor("token_embd.weight", 0, 8, 2)
	for i := range n {
		h.tensor(fmt.Sprintf("blk.%d.attn_q.weight", i), 0, 4)
	}
	return h
}

func TestEachKindOfLayerKeepsWhatItKeeps(t *testing.T) {
	const f16 = 2
	cases := map[string]struct {
		h      *headerBuilder
		short  int64 // bytes of a conversation of 1000 tokens
		longer int64 // of 100,000
	}{
		"grouped heads": {layers("llama", 2, map[string]uint32{"attention.head_count": 8, "attention.head_count_kv": 2, "attention.key_length": 64, "attention.value_length": 64, "embedding_length": 512}),
			2 * 2 * 128 * f16 * 1000, 2 * 2 * 128 * f16 * 100_000},
		// Every sixth layer sees all; the others hold the window and 512 tokens: 1536.
		"sliding window": {layers("gemma3", 6, map[string]uint32{"attention.head_count": 8, "attention.head_count_kv": 2, "attention.key_length": 64, "attention.value_length": 64, "embedding_length": 512, "attention.sliding_window": 1024}),
			6 * 2 * 128 * f16 * 1000, 2*128*f16*100_000 + 5*2*128*f16*1536},
		"compressed (MLA)": {layers("deepseek2", 3, map[string]uint32{"attention.head_count": 16, "attention.head_count_kv": 1, "attention.key_length": 576, "attention.value_length": 512, "attention.key_length_mla": 192, "attention.value_length_mla": 128, "embedding_length": 2048}),
			3 * 576 * f16 * 1000, 3 * 576 * f16 * 100_000},
		// Every fourth layer attends; the state is 4 × ((4-1) × (512 + 2×2×64) + 64 × 512) bytes.
		"hybrid": {layers("qwen3next", 4, map[string]uint32{"attention.head_count": 8, "attention.head_count_kv": 2, "attention.key_length": 64, "attention.value_length": 64, "embedding_length": 512, "full_attention_interval": 4, "ssm.conv_kernel": 4, "ssm.inner_size": 512, "ssm.state_size": 64, "ssm.group_count": 2}),
			2*128*f16*1000 + 3*4*(3*(512+256)+64*512), 2*128*f16*100_000 + 3*4*(3*(512+256)+64*512)},
		"recurrent": {layers("mamba", 2, map[string]uint32{"embedding_length": 256, "ssm.conv_kernel": 4, "ssm.inner_size": 512, "ssm.state_size": 16}),
			2 * 4 * (3*512 + 16*512), 2 * 4 * (3*512 + 16*512)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f, err := gguf.Read(save(t, "m.gguf", c.h.bytes()))
			if err != nil {
				t.Fatal(err)
			}
			var short, longer int64
			for _, b := range f.Blocks {
				short += b.KV(1000, "", "")
				longer += b.KV(100_000, "", "")
			}
			if short != c.short || longer != c.longer {
				t.Errorf("1000 tokens take %d bytes, want %d; 100,000 take %d, want %d\n%+v", short, c.short, longer, c.longer, f.Blocks)
			}
		})
	}
}

func TestHeadsOfEachLayerAreCounted(t *testing.T) {
	h := layers("llama", 3, map[string]uint32{"attention.head_count": 8, "attention.key_length": 64, "attention.value_length": 64, "embedding_length": 512})
	h.list("llama.attention.head_count_kv", uint32(4), uint64(3), uint32(4), uint32(2), uint32(1))
	f, err := gguf.Read(save(t, "m.gguf", h.bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for i, heads := range []int64{4, 2, 1} {
		if got := f.Blocks[i].KV(10, "", ""); got != heads*128*2*10 {
			t.Errorf("layer %d: %d bytes, want %d", i, got, heads*128*2*10)
		}
	}
}

func TestCacheTypesHaveTheirSize(t *testing.T) {
	b := gguf.Block{Key: 1024, Value: 1024}
	for kind, want := range map[gguf.CacheType]int64{"": 2048, "f16": 2048, "bf16": 2048, "f32": 4096, "q8_0": 1088, "q4_0": 576, "q4_1": 640, "iq4_nl": 576, "q5_0": 704, "q5_1": 768, "unheard of": 2048} {
		if got := b.KV(1, kind, kind); got != 2*want {
			t.Errorf("%q: %d bytes for two times 1024 numbers, want %d", kind, got, 2*want)
		}
	}
}

func TestAModelThatReadsBothWaysKeepsNothing(t *testing.T) {
	h := layers("bert", 2, map[string]uint32{"attention.head_count": 8, "embedding_length": 512, "pooling_type": 1})
	h.raw("bert.attention.causal", uint32(7), uint8(0))
	f, err := gguf.Read(save(t, "m.gguf", h.bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if !f.Embedding || f.KVPerToken != 0 || f.Blocks[0].KV(512, "", "") != 0 {
		t.Errorf("got %+v", f)
	}
}

func TestWeightsAreWhereTheirNamesSay(t *testing.T) {
	h := layers("llama", 2, map[string]uint32{"embedding_length": 8})
	h.tensor("output_norm.weight", 0, 8)
	tied, err := gguf.Read(save(t, "m.gguf", h.bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if tied.Input != 64 || tied.Output != 64+32 || tied.Vocabulary != 2 || tied.Blocks[1].Weights != 16 {
		t.Errorf("embeddings used for both: %+v", tied)
	}
	h.tensor("output.weight", 0, 8, 2)
	own, err := gguf.Read(save(t, "m.gguf", h.bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if own.Input != 64 || own.Output != 64+32 {
		t.Errorf("an output of its own: %+v", own)
	}
}
