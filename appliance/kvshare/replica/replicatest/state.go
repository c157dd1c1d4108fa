// Package replicatest makes states as llama-server saves them, for tests.
package replicatest

import (
	"encoding/binary"
	"math/rand/v2"
)

// Shape is what a state looks like but for its tokens. The zero value is a cache of 4 layers with rows of 256 bytes in an
// engine with one cache for all slots.
type Shape struct {
	Layers     int    // 0 = 4
	Row        int    // bytes of one token in one layer's K or V, a multiple of 8; 0 = 256
	Slots      int    // over 1: a stream for each slot
	Slot       int    // whose cells these are
	Transposed bool   // V by channels, as without flash attention
	Window     int    // over 0: a second cache with the last so many tokens
	Tail       []byte // what follows, as checkpoints do
}

// Tokens makes n token ids. Of one seed, fewer tokens are a prefix of more.
func Tokens(n int, seed uint64) []int32 {
	r := rand.New(rand.NewPCG(seed, 0))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = r.Int32N(150_000)
	}
	return ids
}

// State is the file of a slot that holds tokens. As with an engine, what a row holds hangs on all tokens up to its own.
func State(tokens []int32, s Shape) []byte {
	if s.Layers == 0 {
		s.Layers = 4
	}
	if s.Row == 0 {
		s.Row = 256
	}
	n := len(tokens)
	b := make([]byte, 0, 256+16*n+s.Layers*2*(16+n*s.Row))
	b = append(b, "qsgg"...)
	b = words(b, 4, n+4, -1, 1, n)
	for _, t := range tokens {
		b = words(b, int(t))
	}
	b = words(b, 0)
	b = s.cache(b, tokens, 0)
	if s.Window > 0 {
		b = s.cache(b, tokens, max(0, n-s.Window))
	}
	return append(b, s.Tail...)
}

// cache is one cache with the rows of all tokens from the given one on.
func (s Shape) cache(b []byte, tokens []int32, from int) []byte {
	streams := max(1, s.Slots)
	b = words(b, streams)
	for stream := range streams {
		if s.Slots > 1 && stream != s.Slot {
			b = words(b, 0)
			continue
		}
		b = words(b, len(tokens)-from)
		if len(tokens) == from {
			continue
		}
		for pos := from; pos < len(tokens); pos++ {
			b = words(b, pos, 1, s.Slot)
		}
		transposed := 0
		if s.Transposed {
			transposed = 1
		}
		b = words(b, transposed, s.Layers, 0, 0)
		for part := range 2 * s.Layers {
			const half = 1 // the engine's number of 16-bit floats
			b = words(b, half)
			if s.Transposed && part >= s.Layers {
				b = words(b, 2, s.Row/2)
			} else {
				b = binary.LittleEndian.AppendUint64(b, uint64(s.Row))
			}
			b = rows(b, tokens, from, part, s.Row)
		}
	}
	return b
}

func rows(b []byte, tokens []int32, from, part, row int) []byte {
	sum := uint64(part+1) * 0x9e3779b97f4a7c15
	for i, t := range tokens {
		sum = (sum ^ uint64(uint32(t))) * 0xff51afd7ed558ccd
		sum ^= sum >> 32
		if i < from {
			continue
		}
		x := sum
		for range row / 8 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			b = binary.LittleEndian.AppendUint64(b, x)
		}
	}
	return b
}

func words(b []byte, values ...int) []byte {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return b
}
