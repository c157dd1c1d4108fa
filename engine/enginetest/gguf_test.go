package enginetest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"viiwork/engine/enginetest"
)

func TestSameSeedSameModelFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, o enginetest.GGUFOptions) []byte {
		path := filepath.Join(dir, name)
		if err := enginetest.WriteGGUF(path, o); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	a := write("a", enginetest.GGUFOptions{Seed: 7})
	b := write("b", enginetest.GGUFOptions{Seed: 7})
	c := write("c", enginetest.GGUFOptions{Seed: 8})
	if !bytes.Equal(a, b) {
		t.Error("equal seeds gave different files")
	}
	if bytes.Equal(a, c) {
		t.Error("different seeds gave equal files")
	}
	if !bytes.HasPrefix(a, []byte("GGUF\x03\x00\x00\x00")) {
		t.Errorf("starts with % x", a[:8])
	}
	if n := len(a); n < 4<<20 || n > 6<<20 {
		t.Errorf("file of %d bytes, about 5 MB were promised", n)
	}
}

func TestWriteGGUFNamesAFolderThatIsMissing(t *testing.T) {
	if err := enginetest.WriteGGUF(filepath.Join(t.TempDir(), "none", "x.gguf"), enginetest.GGUFOptions{}); err == nil {
		t.Fatal("writing into a missing folder succeeded")
	}
}

func TestModelFilesLoadInTheRealEngine(t *testing.T) {
	enginetest.Real(t)
	for name, o := range map[string]enginetest.GGUFOptions{
		"plain":          {},
		"sliding window": {SlidingWindow: true},
		"no infill":      {NoFIM: true, Name: "other", Context: 4096},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.gguf")
			if err := enginetest.WriteGGUF(path, o); err != nil {
				t.Fatal(err)
			}
			tg := target{t, enginetest.StartReal(t, path, "-np", "1", "-c", "2048"), "", ""}
			b := chat("a", 40)
			first := at(tg.post(chatPath, b).json(t), "choices", "message", "content")
			if text, _ := first.(string); len(text) != 40 || strings.Trim(text, "abcdefghijklmnopqrstuvwxyz ") != "" {
				t.Errorf("said %q", text)
			}
			want := 200
			if o.NoFIM {
				want = 501
			}
			if r := tg.post("/infill", body{"input_prefix": "a", "input_suffix": "b", "n_predict": 1}); r.status != want {
				t.Errorf("infill: %d %.200s", r.status, r.body)
			}
		})
	}
}
