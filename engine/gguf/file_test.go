package gguf_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"viiwork/engine/enginetest"
	"viiwork/engine/gguf"
)

// model writes a tiny model that a real engine loads and returns its path and bytes.
func model(t testing.TB, o enginetest.GGUFOptions) (path string, data []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "model.gguf")
	if err := enginetest.WriteGGUF(path, o); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, data
}

func save(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadTellsWhatAModelIs(t *testing.T) {
	path, data := model(t, enginetest.GGUFOptions{Name: "small one"})
	f, err := gguf.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	// 4 layers × 2 heads × (64 + 64) × 2 bytes, the figure a real engine allocates.
	want := gguf.File{
		Path: path, Size: int64(len(data)), Architecture: "llama", Name: "small one",
		Quantisation: "F16", Context: 32768, Layers: 4, KVPerToken: 2048,
		Input: 288 * 256 * 2, Output: 288*256*2 + 256*4, Vocabulary: 288, Width: 256, Wide: 512,
	}
	got := f
	got.Shards, got.Blocks = nil, nil
	if fmt.Sprint(got) != fmt.Sprint(want) || len(f.Shards) != 1 || f.Shards[0] != path {
		t.Errorf("got  %+v\nwant %+v", f, want)
	}
}

func TestSlidingWindowLayersDoNotGrow(t *testing.T) {
	path, _ := model(t, enginetest.GGUFOptions{SlidingWindow: true})
	f, err := gguf.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	// Of gemma3's 6 layers every sixth sees the whole context: 1 × 2 heads × (64 + 64) × 2 bytes.
	if f.Architecture != "gemma3" || f.Layers != 6 || f.KVPerToken != 512 {
		t.Errorf("got %+v, want gemma3 with 6 layers and 512 bytes a token", f)
	}
}

func TestFaultsAreNamedWithTheWayOut(t *testing.T) {
	_, data := model(t, enginetest.GGUFOptions{})
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe.gguf")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	bigVersion := append([]byte("GGUF\x00\x00\x00\x03"), data[8:]...)
	cases := map[string]struct{ path, want string }{
		"missing":          {filepath.Join(dir, "none.gguf"), "does not exist: correct path or models_dir"},
		"directory":        {dir, "is a directory: set path to the GGUF file in it"},
		"pipe":             {pipe, "is no regular file"},
		"empty":            {save(t, "m.gguf", nil), "truncated: it ends within its header, after 0 bytes"},
		"text":             {save(t, "m.gguf", []byte("<!DOCTYPE html>")), "is not a GGUF file"},
		"cut in the magic": {save(t, "m.gguf", data[:2]), "truncated: it ends within its header"},
		"cut in the keys":  {save(t, "m.gguf", data[:3000]), "truncated: it ends within its header, after 3000 bytes"},
		"cut in a tensor":  {save(t, "model.gguf", data[:1_000_000]), fmt.Sprintf("model.gguf is truncated: its tensors need %d bytes, the file has 1000000: download it again", len(data))},
		"one byte short":   {save(t, "m.gguf", data[:len(data)-1]), "is truncated: its tensors need"},
		"old version":      {save(t, "m.gguf", []byte("GGUF\x01\x00\x00\x00")), "is of GGUF version 1"},
		"big endian":       {save(t, "m.gguf", bigVersion), "is of GGUF version 50331648"},
		"not the first":    {save(t, "m-00002-of-00003.gguf", data), "is part 2 of a model: set path to part 1"},
		"missing shard":    {save(t, "m-00001-of-00003.gguf", data), "part 2 of 3 is missing"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := gguf.Read(c.path)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
	if _, err := gguf.Read(cases["missing"].path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error of a missing file is not fs.ErrNotExist: %v", err)
	}
}

func TestShardsAreReadAsOneModel(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for n := 1; n <= 2; n++ {
		h := newHeader()
		if n == 1 {
			h.str("general.architecture", "llama")
			h.num("llama.block_count", 2)
		}
		h.num("split.no", uint32(n-1))
		h.num("split.count", 2)
		h.tensor(fmt.Sprintf("blk.%d.attn_q.weight", n-1), 0, 8)
		path := filepath.Join(dir, fmt.Sprintf("big-0000%d-of-00002.gguf", n))
		if err := os.WriteFile(path, h.bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	f, err := gguf.Read(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Shards) != 2 || f.Layers != 2 || f.Size == 0 {
		t.Errorf("got %+v, want both shards as one model of 2 layers", f)
	}
	if err := os.Truncate(paths[1], 100); err != nil {
		t.Fatal(err)
	}
	if _, err := gguf.Read(paths[0]); err == nil || !strings.Contains(err.Error(), paths[1]+" is truncated") {
		t.Errorf("got %v, want the second shard named as truncated", err)
	}
}

// TestASparseFileClaimsNoMoreThanAModel: sums of such sizes would wrap.
func TestASparseFileClaimsNoMoreThanAModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, newHeader().bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 400<<30); err != nil {
		t.Skip("no sparse files here: ", err)
	}
	if f, err := gguf.Read(path); err != nil || f.Size != 400<<30 {
		t.Errorf("one of 400 GiB: %d, %v", f.Size, err)
	}
	if err := os.Truncate(path, 1<<62); err != nil {
		t.Skip("no file is so large here: ", err)
	}
	if _, err := gguf.Read(path); err == nil || !strings.Contains(err.Error(), "more than any model") {
		t.Error(err)
	}
}
