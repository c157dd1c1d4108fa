package replica_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/kvshare/replica/replicatest"
)

func TestAManifestIsReadAsItWasWritten(t *testing.T) {
	for _, state := range [][]byte{
		replicatest.State(replicatest.Tokens(1000, 1), replicatest.Shape{}),
		replicatest.State(replicatest.Tokens(1000, 1), replicatest.Shape{Window: 100}),
		[]byte("foreign"), nil,
	} {
		want := cut(t, state)
		b := want.Append([]byte("before"))[len("before"):]
		got, err := replica.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Append(nil), b) || got.Key != want.Key || got.Tokens != want.Tokens || got.Layout != want.Layout || !slices.Equal(got.Chunks, want.Chunks) {
			t.Errorf("read %+v, written %+v", got.Key, want.Key)
		}
	}
}

func TestAManifestIsCompact(t *testing.T) {
	m := replica.Manifest{Key: key, Layout: replica.LayoutRows, Size: 50_000, Chunks: make([]replica.Chunk, 50_000)}
	for i := range m.Chunks {
		m.Chunks[i].Size = 1
	}
	if n := len(m.Append(nil)); n > 1_850_000 {
		t.Errorf("50,000 chunks take %d bytes", n)
	}
}

// sealed gives a manifest changed by edit the checksum that belongs to it: what a member that lies would send.
func sealed(b []byte, edit func([]byte) []byte) []byte {
	b = edit(slices.Clone(b[:len(b)-sha256.Size]))
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

func TestAManifestThatLiesIsRefused(t *testing.T) {
	good := cut(t, replicatest.State(replicatest.Tokens(600, 1), replicatest.Shape{Layers: 1})).Append(nil)
	text := len(key.String())
	size := 4 + 1 + 2 + text + 2 + len(replica.LayoutRows) + 4
	put := func(at int, v uint64, bytes int) func([]byte) []byte {
		return func(b []byte) []byte {
			var all [8]byte
			binary.BigEndian.PutUint64(all[:], v)
			copy(b[at:], all[8-bytes:])
			return b
		}
	}
	for name, b := range map[string][]byte{
		"nothing":           nil,
		"foreign":           []byte("GGUF"),
		"cut":               good[:len(good)-1],
		"longer":            append(slices.Clone(good), 0),
		"flipped":           func() []byte { b := slices.Clone(good); b[len(b)-40] ^= 1; return b }(),
		"size of 2^60":      sealed(good, put(size, 1<<60, 8)),
		"size of 2^63":      sealed(good, put(size, 1<<63, 8)),
		"another size":      sealed(good, put(size, 100, 8)),
		"2^32-1 chunks":     sealed(good, put(size+12, 1<<32-1, 4)),
		"2^32-1 links":      sealed(good, put(size+8, 1<<32-1, 4)),
		"tokens, no links":  sealed(good, put(size-4, 5000, 4)),
		"2^32-1 tokens":     sealed(good, put(size-4, 1<<32-1, 4)),
		"chunk of nothing":  sealed(good, func(b []byte) []byte { return put(len(b)-4, 0, 4)(b) }),
		"chunk of 4 GiB":    sealed(good, func(b []byte) []byte { return put(len(b)-4, 1<<32-1, 4)(b) }),
		"key of 65535":      sealed(good, put(5, 65535, 2)),
		"layout of another": sealed(good, put(size-8, 'x', 1)),
		"bytes behind":      sealed(good, func(b []byte) []byte { return append(b, 1, 2, 3) }),
	} {
		if _, err := replica.Parse(b); !errors.Is(err, replica.ErrManifest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := replica.Parse(sealed(good, put(4, 2, 1))); !errors.Is(err, replica.ErrVersion) {
		t.Errorf("another version: %v", err)
	}
}

func TestKeysAreTheSameAfterTheirTextForm(t *testing.T) {
	keys := []replica.Key{key, {Model: "m", Build: "b", CacheK: "q8_0", CacheV: "f16", Slots: 4}, {Model: "m", Build: "b", CacheK: "q8_0", CacheV: "f16"}}
	seen := map[[16]byte]bool{}
	for _, k := range keys {
		got, err := replica.ParseKey(k.String())
		if err != nil || got != k {
			t.Errorf("%v came back as %v, %v", k, got, err)
		}
		seen[k.Digest()] = true
	}
	if len(seen) != len(keys) {
		t.Error("two keys have one digest")
	}
	for _, text := range []string{"", "|", "a|b|c|d|0", "a|b|c|d|0|true|e", "a|b|c|d|x|true", "a|b|c|d|-1|true", "a|b|c|d|01|true", "a|b|c|d|0|yes",
		"|b|c|d|0|true", "a\n|b|c|d|0|true", strings.Repeat("a", 200) + "|b|c|d|0|true", strings.Repeat("a|", 1000)} {
		if k, err := replica.ParseKey(text); !errors.Is(err, replica.ErrKey) {
			t.Errorf("%.20q was read as %v, %v", text, k, err)
		}
	}
}

// A key that gains a field must tell of it in its text form, which is what is compared.
func TestEveryFieldOfAKeyTells(t *testing.T) {
	for i := range reflect.TypeFor[replica.Key]().NumField() {
		k := key
		switch f := reflect.ValueOf(&k).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString("other")
		case reflect.Int:
			f.SetInt(7)
		case reflect.Bool:
			f.SetBool(!f.Bool())
		}
		if k.String() == key.String() || k.Digest() == key.Digest() {
			t.Errorf("field %d makes no difference", i)
		}
	}
}

func TestChainsTellHowFarTwoStatesAreTheSame(t *testing.T) {
	tokens := replicatest.Tokens(2000, 1)
	other := append(slices.Clone(tokens[:1100]), replicatest.Tokens(900, 2)...)
	m := func(tokens []int32) replica.Manifest {
		return replica.Manifest{Tokens: len(tokens), Chain: replica.Chain(tokens)}
	}
	for _, c := range []struct {
		a, b []int32
		want int
	}{
		{tokens, tokens, 2000},
		{tokens, tokens[:1500], 1280},
		{tokens[:1500], tokens, 1280},
		{tokens, tokens[:1536], 1536},
		{tokens, other, 1024},
		{tokens, tokens[1:], 0},
		{tokens, nil, 0},
		{tokens[:100], tokens[:100], 100},
	} {
		if got := m(c.a).Shared(m(c.b)); got != c.want {
			t.Errorf("%d and %d tokens share %d by their chains, want %d", len(c.a), len(c.b), got, c.want)
		}
	}
	if n := replica.CommonPrefix(tokens, other); n != 1100 {
		t.Errorf("the common prefix has %d tokens, want 1100", n)
	}
}
