package replica_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/kvshare/replica/replicatest"
)

var key = replica.Key{Model: "v1:0123", Build: "0.7.0 (11669)", CacheK: "f16", CacheV: "f16", Flash: true}

// read looks at a state in memory.
func read(t testing.TB, state []byte) *replica.State {
	t.Helper()
	s, err := replica.Read(bytes.NewReader(state), int64(len(state)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// cut cuts a state and makes sure that the chunks are the state.
func cut(t testing.TB, state []byte) replica.Manifest {
	t.Helper()
	var whole []byte
	m, err := read(t, state).Cut(t.Context(), key, func(c replica.Chunk, b []byte) error {
		if int(c.Size) != len(b) || c.Sum != sha256.Sum256(b) {
			t.Error("a chunk is not what its sum says")
		}
		whole = append(whole, b...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(whole, state) {
		t.Fatalf("the chunks make %d bytes that are not the state of %d", len(whole), len(state))
	}
	if err := m.Validate(); err != nil {
		t.Error(err)
	}
	return m
}

// fresh is the share of a manifest's bytes that have is without.
func fresh(m replica.Manifest, have ...replica.Manifest) float64 {
	known := map[replica.Sum]bool{}
	for _, h := range have {
		for _, c := range h.Chunks {
			known[c.Sum] = true
		}
	}
	n := 0
	for _, c := range m.Chunks {
		if !known[c.Sum] {
			n += int(c.Size)
			known[c.Sum] = true
		}
	}
	return float64(n) / float64(m.Size)
}

func TestATurnAddsLittleMoreThanItsRows(t *testing.T) {
	for name, c := range map[string]struct {
		shape  replicatest.Shape
		layout string
		most   float64
	}{
		"one cache":    {replicatest.Shape{}, replica.LayoutRows, 0.17},
		"other slot":   {replicatest.Shape{Slot: 3}, replica.LayoutRows, 0.17},
		"split cache":  {replicatest.Shape{Slots: 3, Slot: 1}, replica.LayoutRows, 0.17},
		"last of many": {replicatest.Shape{Slots: 4, Slot: 3}, replica.LayoutRows, 0.17},
		"eight bits":   {replicatest.Shape{Row: 136}, replica.LayoutRows, 0.17},
		"window":       {replicatest.Shape{Window: 256}, replica.LayoutMixed, 0.27},
		"checkpoints":  {replicatest.Shape{Tail: bytes.Repeat([]byte("SCKP"), 4096)}, replica.LayoutMixed, 0.18},
	} {
		t.Run(name, func(t *testing.T) {
			tokens := replicatest.Tokens(3659, 1)
			before, after := cut(t, replicatest.State(tokens[:3078], c.shape)), cut(t, replicatest.State(tokens, c.shape))
			if after.Layout != c.layout {
				t.Errorf("cut as %s, want %s", after.Layout, c.layout)
			}
			if share := fresh(after, before); share > c.most {
				t.Errorf("%.3f of the state is new, want %.2f at most", share, c.most)
			}
			if n := after.Shared(before); n != 3078/replica.LinkTokens*replica.LinkTokens {
				t.Errorf("the two share %d tokens by their chains", n)
			}
		})
	}
}

func TestNoChunkIsLongerThanAllowed(t *testing.T) {
	for _, row := range []int{16 << 10, 40 << 10, replica.MaxChunk / 2, replica.MaxChunk} {
		m := cut(t, replicatest.State(replicatest.Tokens(70, 1), replicatest.Shape{Layers: 1, Row: row}))
		if rows := m.Layout == replica.LayoutRows; rows != (row < replica.MaxChunk) {
			t.Errorf("rows of %d bytes: cut as %s", row, m.Layout)
		}
	}
}

func TestTokensAreReadFromTheHeader(t *testing.T) {
	tokens := replicatest.Tokens(20_000, 2)
	for name, shape := range map[string]replicatest.Shape{
		"rows": {Layers: 1, Row: 8}, "transposed": {Layers: 1, Row: 8, Transposed: true}, "window": {Layers: 1, Row: 8, Window: 100},
	} {
		s := read(t, replicatest.State(tokens, shape))
		if !slices.Equal(s.Tokens, tokens) {
			t.Errorf("%s: %d tokens were read, and they are others", name, len(s.Tokens))
		}
	}
	if s := read(t, replicatest.State(tokens, replicatest.Shape{Layers: 1, Row: 8, Slots: 5, Slot: 2})); s.Streams != 5 {
		t.Errorf("%d streams, want 5", s.Streams)
	}
	if s := read(t, replicatest.State(nil, replicatest.Shape{})); s.Layout != replica.LayoutRows || len(s.Tokens) != 0 {
		t.Errorf("an empty slot is %s with %d tokens", s.Layout, len(s.Tokens))
	}
}

func TestWhatIsNotUnderstoodIsOpaqueAndCutAllTheSame(t *testing.T) {
	state := replicatest.State(replicatest.Tokens(500, 3), replicatest.Shape{})
	change := func(at int, v uint32) []byte {
		b := slices.Clone(state)
		binary.LittleEndian.PutUint32(b[at:], v)
		return b
	}
	const cells = 24 + 4*500 + 4 + 4
	for name, c := range map[string]struct {
		state []byte
		why   string
	}{
		"empty":            {nil, "ends early"},
		"foreign":          {[]byte("GGUF, and something else"), "none of llama.cpp's"},
		"older":            {change(4, 2), "version is 2"},
		"newer":            {change(4, 5), "version is 5"},
		"pictures":         {change(8, 503), "more than token ids"},
		"count of tokens":  {change(20, 499), "more than token ids"},
		"many words":       {change(8, 1<<32-1), "it has 4294967295 words"},
		"cut in header":    {state[:1000], "words"},
		"cut in cells":     {state[:cells+300], "cells"},
		"cut in rows":      {state[:len(state)-1], "not there"},
		"more cells":       {change(cells, 501), "sequence"},
		"many cells":       {change(cells, 1<<31), "cells"},
		"shared cell":      {change(cells+8, 2), "sequence"},
		"no layers":        {change(cells+4+12*500+4, 0), "second cache"},
		"many layers":      {change(cells+4+12*500+4, 1<<30), "layers"},
		"row of 2^60":      {change(cells+4+12*500+16+8, 1<<28), "row"},
		"row of nothing":   {change(cells+4+12*500+16+4, 0), "row"},
		"many streams":     {change(cells-4, 1<<20), "streams"},
		"transposed":       {replicatest.State(replicatest.Tokens(500, 3), replicatest.Shape{Transposed: true}), "transposed"},
		"something behind": {append(slices.Clone(state), 1), "follow"},
	} {
		t.Run(name, func(t *testing.T) {
			s := read(t, c.state)
			if !strings.Contains(s.Opaque, c.why) {
				t.Errorf("it is opaque because %q, want %q", s.Opaque, c.why)
			}
			cut(t, c.state)
		})
	}
}

func TestAStateOverTheLimitIsRefused(t *testing.T) {
	for _, size := range []int64{-1, replica.MaxSize + 1, 1 << 60} {
		if _, err := replica.Read(bytes.NewReader(nil), size); !errors.Is(err, replica.ErrTooLarge) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// A file may be written over or cut off while it is read.
func TestAStateThatEndsEarlyIsAnErrorOfReading(t *testing.T) {
	state := replicatest.State(replicatest.Tokens(500, 4), replicatest.Shape{})
	nothing := func(replica.Chunk, []byte) error { return nil }
	for _, shape := range []replicatest.Shape{{}, {Transposed: true}} {
		state := replicatest.State(replicatest.Tokens(2000, 4), shape)
		file := &shrinking{state}
		s, err := replica.Read(file, int64(len(state)))
		if err != nil {
			t.Fatal(err)
		}
		file.b = state[:len(state)-100]
		if _, err := s.Cut(t.Context(), key, nothing); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cutting: %v", err)
		}
	}
	if _, err := replica.Read(bytes.NewReader(state[:1000]), int64(len(state))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("reading: %v", err)
	}
}

type shrinking struct{ b []byte }

func (s *shrinking) ReadAt(b []byte, at int64) (int, error) {
	return bytes.NewReader(s.b).ReadAt(b, at)
}

func TestCuttingEndsWhenItIsToldTo(t *testing.T) {
	state := replicatest.State(replicatest.Tokens(2000, 5), replicatest.Shape{})
	full := errors.New("no more")
	if _, err := read(t, state).Cut(t.Context(), key, func(replica.Chunk, []byte) error { return full }); !errors.Is(err, full) {
		t.Errorf("what emit returned came back as %v", err)
	}
	if _, err := read(t, append([]byte("x"), state...)).Cut(t.Context(), key, func(replica.Chunk, []byte) error { return full }); !errors.Is(err, full) {
		t.Errorf("by content: what emit returned came back as %v", err)
	}
	if _, err := replica.Read(readerAt{iotest.ErrReader(full)}, 100); !errors.Is(err, full) {
		t.Errorf("a broken disk came back as %v", err)
	}
}

type readerAt struct{ io.Reader }

func (r readerAt) ReadAt(b []byte, _ int64) (int, error) { return r.Read(b) }

// A state of 3 GiB has few enough chunks, and so few bytes of manifest, whatever its layout. Its bytes are not made: all
// rows are zeros.
func TestALargeStateHasABoundedNumberOfChunks(t *testing.T) {
	for name, c := range map[string]struct{ tokens, layers, row int }{
		"as published": {32 << 10, 48, 1024}, "thin rows": {128 << 10, 96, 128}, "thick rows": {1 << 10, 24, 64 << 10},
	} {
		file := &sparse{head: replicatest.State(nil, replicatest.Shape{}), tokens: c.tokens, layers: c.layers, row: c.row}
		file.build()
		s, err := replica.Read(file, file.size)
		if err != nil || s.Opaque != "" {
			t.Fatalf("%s: %v, opaque: %q", name, err, s.Opaque)
		}
		if n := s.Chunks(); n > 200_000 {
			t.Errorf("%s: %d chunks", name, n)
		}
	}
}

// sparse is a state of many rows of zeros.
type sparse struct {
	head                []byte
	tokens, layers, row int
	size                int64
}

func (s *sparse) build() {
	le := binary.LittleEndian
	b := le.AppendUint32([]byte("qsgg"), 4)
	for _, v := range []uint32{uint32(s.tokens + 4), 1<<32 - 1, 1, uint32(s.tokens)} {
		b = le.AppendUint32(b, v)
	}
	b = append(b, make([]byte, 4*s.tokens+4)...)
	b = le.AppendUint32(le.AppendUint32(b, 1), uint32(s.tokens))
	for i := range s.tokens {
		for _, v := range []uint32{uint32(i), 1, 0} {
			b = le.AppendUint32(b, v)
		}
	}
	for _, v := range []uint32{0, uint32(s.layers), 0, 0} {
		b = le.AppendUint32(b, v)
	}
	s.head = b
	s.size = int64(len(b)) + int64(2*s.layers)*(12+int64(s.tokens)*int64(s.row))
}

func (s *sparse) ReadAt(b []byte, at int64) (int, error) {
	clear(b)
	if at < int64(len(s.head)) {
		copy(b, s.head[at:])
		return len(b), nil
	}
	section := 12 + int64(s.tokens)*int64(s.row)
	if (at-int64(len(s.head)))%section == 4 { // where the cursor reads the size of a row
		binary.LittleEndian.PutUint64(b, uint64(s.row))
	}
	return len(b), nil
}
