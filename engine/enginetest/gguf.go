package enginetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
)

// GGUFOptions shapes the tiny model of [WriteGGUF]. The zero value is a 5 MB llama model with a context of 32768
// tokens and fill-in-the-middle tokens.
type GGUFOptions struct {
	SlidingWindow bool   // gemma3 with a 256-token sliding window in place of plain llama; 7 MB
	Context       int    // trained context in tokens; 0 = 32768
	Layers        int    // 0 = 4 (sliding window: 6)
	Seed          uint64 // equal seeds give byte-equal files
	NoFIM         bool   // leave the fill-in-the-middle tokens out, so that /infill answers 501
	Name          string // general.name; "" = "tiny"
}

// Special tokens of the tiny models. Ids under 256 are the bytes themselves: one byte is one token.
const (
	tokenEndOfText = 256 + iota
	tokenTurnStart
	tokenTurnEnd
	tokenPad
	tokenFIMPrefix
	tokenFIMSuffix
	tokenFIMMiddle
	tokensNamed
	// The vocabulary is filled up to a multiple of 32, which keeps rows aligned for every CPU kernel.
	tokensTotal = (tokensNamed + 31) / 32 * 32
)

// Sizes of the tiny models: 2048 bytes of KV cache a token with 4 layers at half precision.
const (
	tinyWidth   = 256
	tinyHeads   = 4
	tinyKVHeads = 2
	tinyHead    = 64
	tinyFeed    = 512
	tinyWindow  = 256
)

// chatTemplate is ChatML. The fake server renders prompts the same way.
const chatTemplate = `{%- for message in messages -%}` +
	`{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}` +
	`{%- endfor -%}` +
	`{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}`

// WriteGGUF writes a model file with random weights that a real llama-server loads in a fraction of a second. Its
// output is readable nonsense that depends on the whole context: under greedy sampling, equal output proves equal KV.
func WriteGGUF(path string, o GGUFOptions) error {
	if o.Context == 0 {
		o.Context = 32768
	}
	if o.Layers == 0 {
		o.Layers = 4
		if o.SlidingWindow {
			o.Layers = 6
		}
	}
	if o.Name == "" {
		o.Name = "tiny"
	}
	m := tinyModel{GGUFOptions: o, random: rand.New(rand.NewPCG(o.Seed, 0))}
	m.describe()
	m.tokenizer()
	m.weights()

	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing a model file: %w", err)
	}
	if _, err := m.file.WriteTo(f); err != nil {
		f.Close()
		return fmt.Errorf("writing a model file: %w", err)
	}
	return f.Close()
}

type tinyModel struct {
	GGUFOptions
	file   ggufFile
	random *rand.Rand
}

func (m *tinyModel) describe() {
	arch := "llama"
	if m.SlidingWindow {
		arch = "gemma3"
	}
	f := &m.file
	f.text("general.architecture", arch)
	f.text("general.name", m.Name)
	f.number("general.file_type", 1) // mostly F16
	for _, k := range []struct {
		name  string
		value int
	}{
		{"block_count", m.Layers},
		{"context_length", m.Context},
		{"embedding_length", tinyWidth},
		{"feed_forward_length", tinyFeed},
		{"attention.head_count", tinyHeads},
		{"attention.head_count_kv", tinyKVHeads},
		{"attention.key_length", tinyHead},
		{"attention.value_length", tinyHead},
		{"vocab_size", tokensTotal},
	} {
		f.number(arch+"."+k.name, k.value)
	}
	f.float(arch+".attention.layer_norm_rms_epsilon", 1e-5)
	f.float(arch+".rope.freq_base", 500000)
	if m.SlidingWindow {
		f.number(arch+".attention.sliding_window", tinyWindow)
	} else {
		f.number(arch+".rope.dimension_count", tinyHead)
	}
}

func (m *tinyModel) tokenizer() {
	const plain, control = 1, 3
	var names []string
	var kinds []int32
	for b := range 256 {
		names, kinds = append(names, string(printableByte(b))), append(kinds, plain)
	}
	names = append(names, "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>")
	if !m.NoFIM {
		// The engine knows these by their names too.
		names = append(names, "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
	}
	for len(names) < tokensTotal {
		names = append(names, fmt.Sprintf("<|unused%d|>", len(names)))
	}
	for len(kinds) < tokensTotal {
		kinds = append(kinds, control)
	}
	f := &m.file
	f.text("tokenizer.ggml.model", "gpt2")
	f.text("tokenizer.ggml.pre", "gpt-2")
	f.texts("tokenizer.ggml.tokens", names)
	f.numbers("tokenizer.ggml.token_type", kinds)
	f.texts("tokenizer.ggml.merges", nil) // none: no two bytes ever become one token
	f.number("tokenizer.ggml.bos_token_id", tokenEndOfText)
	f.number("tokenizer.ggml.eos_token_id", tokenTurnEnd)
	f.number("tokenizer.ggml.padding_token_id", tokenPad)
	f.flag("tokenizer.ggml.add_bos_token", false)
	f.text("tokenizer.chat_template", chatTemplate)
	if !m.NoFIM {
		f.number("tokenizer.ggml.fim_pre_token_id", tokenFIMPrefix)
		f.number("tokenizer.ggml.fim_suf_token_id", tokenFIMSuffix)
		f.number("tokenizer.ggml.fim_mid_token_id", tokenFIMMiddle)
	}
}

// printableByte is the character that stands for byte b in a GPT-2 vocabulary: itself when printable, else the next
// free one from U+0100 on, in byte order.
func printableByte(b int) rune {
	shown := func(b int) bool { return b > ' ' && b < 127 || b > 160 && b < 256 && b != 173 }
	if shown(b) {
		return rune(b)
	}
	r := rune(256)
	for i := range b {
		if !shown(i) {
			r++
		}
	}
	return r
}

func (m *tinyModel) weights() {
	m.embedding()
	for l := range m.Layers {
		m.layer(fmt.Sprintf("blk.%d.", l))
	}
	m.ones("output_norm", tinyWidth)
	m.output()
}

func (m *tinyModel) layer(prefix string) {
	m.ones(prefix+"attn_norm", tinyWidth)
	m.matrix(prefix+"attn_q", tinyWidth, tinyHeads*tinyHead, 1.5)
	m.matrix(prefix+"attn_k", tinyWidth, tinyKVHeads*tinyHead, 1.5)
	m.matrix(prefix+"attn_v", tinyWidth, tinyKVHeads*tinyHead, 1)
	m.matrix(prefix+"attn_output", tinyHeads*tinyHead, tinyWidth, 1)
	m.ones(prefix+"ffn_norm", tinyWidth)
	if m.SlidingWindow {
		m.ones(prefix+"attn_q_norm", tinyHead)
		m.ones(prefix+"attn_k_norm", tinyHead)
		m.ones(prefix+"post_attention_norm", tinyWidth)
		m.ones(prefix+"post_ffw_norm", tinyWidth)
	}
	m.matrix(prefix+"ffn_gate", tinyWidth, tinyFeed, 1)
	m.matrix(prefix+"ffn_up", tinyWidth, tinyFeed, 1)
	m.matrix(prefix+"ffn_down", tinyFeed, tinyWidth, 1)
}

// embedding gives every token the same large first component. It survives all layers as a constant, so that the first
// column of the output matrix acts as a bias for each token.
func (m *tinyModel) embedding() {
	m.tensor("token_embd", []uint64{tinyWidth, tokensTotal}, func() []float32 {
		v := m.gaussian(tinyWidth*tokensTotal, 1)
		for t := range tokensTotal {
			v[t*tinyWidth] = 8
		}
		return v
	})
}

// output favours letters and spaces, ends a turn now and then, and all but forbids the rest.
func (m *tinyModel) output() {
	m.tensor("output", []uint64{tinyWidth, tokensTotal}, func() []float32 {
		v := m.gaussian(tinyWidth*tokensTotal, 2/math.Sqrt(tinyWidth))
		for t := range tokensTotal {
			bias := float32(-6)
			switch {
			case t >= 'a' && t <= 'z', t == ' ':
				bias = 0
			case t == tokenTurnEnd:
				bias = -1.2
			}
			v[t*tinyWidth] = bias
		}
		return v
	})
}

// matrix adds a Gaussian matrix that keeps the variance of its input, times gain squared.
func (m *tinyModel) matrix(name string, in, out int, gain float64) {
	m.tensor(name, []uint64{uint64(in), uint64(out)}, func() []float32 {
		return m.gaussian(in*out, gain/math.Sqrt(float64(in)))
	})
}

func (m *tinyModel) tensor(name string, dims []uint64, values func() []float32) {
	m.file.tensors = append(m.file.tensors, ggufTensor{name + ".weight", dims, ggmlF16, values})
}

// ones adds a norm, which engines expect at full precision.
func (m *tinyModel) ones(name string, n int) {
	m.file.tensors = append(m.file.tensors, ggufTensor{name + ".weight", []uint64{uint64(n)}, ggmlF32, func() []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = 1
		}
		return v
	}})
}

func (m *tinyModel) gaussian(n int, deviation float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(m.random.NormFloat64() * deviation)
	}
	return v
}
