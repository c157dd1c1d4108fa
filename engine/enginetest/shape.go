package enginetest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
)

// Shape is a model of any size of which only the file's header is real: its weights are a hole in the disk. No engine
// loads it; what plans with it cannot tell.
type Shape struct {
	Arch    string
	Layers  int
	Weights int64 // bytes of all layers
	Width   uint32
	Context uint32
	KVHeads uint32
	Pooling uint32 // above 0: a model that embeds
}

// Write makes the file, and its folder. It takes next to nothing of the disk.
func (s Shape) Write(path string) error {
	b := s.header()
	for b.Len()%ggufAlign != 0 {
		b.WriteByte(0)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing a model's shape: %w", err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing a model's shape: %w", err)
	}
	if err := os.Truncate(path, int64(b.Len())+int64(s.weights())); err != nil {
		return fmt.Errorf("writing a model's shape: %w", err)
	}
	return nil
}

// A tensor of a shape is a stack of planes of 2048 by 2048 numbers in Q4_0.
const (
	shapeSide  = 2048
	shapePlane = shapeSide * shapeSide / 32 * 18
	shapeQ4    = 2
	shapeEmbed = 128 << 20 // bytes of the tables at both ends
)

func planes(bytes int64) uint64 { return max(uint64(bytes)/shapePlane, 1) }

// weights is the bytes of all tensors.
func (s Shape) weights() uint64 {
	return shapePlane * (2*planes(shapeEmbed) + uint64(s.Layers)*planes(s.Weights/int64(s.Layers)))
}

func (s Shape) header() *bytes.Buffer {
	b := new(bytes.Buffer)
	put := func(values ...any) {
		for _, v := range values {
			if text, ok := v.(string); ok {
				binary.Write(b, binary.LittleEndian, uint64(len(text)))
				b.WriteString(text)
				continue
			}
			binary.Write(b, binary.LittleEndian, v)
		}
	}
	numbers := map[string]uint32{
		".block_count": uint32(s.Layers), ".context_length": s.Context, ".embedding_length": s.Width, ".feed_forward_length": 4 * s.Width,
		".attention.head_count": s.Width / 128, ".attention.head_count_kv": s.KVHeads, ".attention.key_length": 128, ".attention.value_length": 128,
	}
	if s.Pooling > 0 {
		numbers[".pooling_type"] = s.Pooling
	}
	put([]byte("GGUF"), uint32(ggufVersion), uint64(s.Layers+2), uint64(len(numbers)+3))
	put("general.architecture", uint32(ggufString), s.Arch)
	put("general.file_type", uint32(ggufUint32), uint32(15))
	put("tokenizer.ggml.tokens", uint32(ggufArray), uint32(ggufString), uint64(4), "a", "b", "c", "d")
	for key, v := range numbers {
		put(s.Arch+key, uint32(ggufUint32), v)
	}
	offset := uint64(0)
	tensor := func(name string, bytes int64) {
		put(name, uint32(3), uint64(shapeSide), uint64(shapeSide), planes(bytes), uint32(shapeQ4), offset)
		offset += planes(bytes) * shapePlane
	}
	tensor("token_embd.weight", shapeEmbed)
	for i := range s.Layers {
		tensor(fmt.Sprintf("blk.%d.ffn_down.weight", i), s.Weights/int64(s.Layers))
	}
	tensor("output.weight", shapeEmbed)
	return b
}
