package appliance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"viiwork/appliance"
	"viiwork/appliance/config"
	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
)

func digestOf(t *testing.T, shards ...string) string {
	t.Helper()
	digest, err := appliance.FileDigest(t.Context(), shards)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// TestDigestTellsFilesApart, small ones that are read whole and large ones that are sampled.
func TestDigestTellsFilesApart(t *testing.T) {
	for _, size := range []int{0, 1, 4096, appliance.DigestLargest, appliance.DigestLargest + 1, 3 * appliance.DigestLargest} {
		content := make([]byte, size)
		for i := range content {
			content[i] = byte(i*7 + i>>13)
		}
		path := filepath.Join(t.TempDir(), "a.gguf")
		write := func(b []byte) string {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			return digestOf(t, path)
		}
		first := write(content)
		if again := write(content); again != first || !strings.HasPrefix(first, "v1:") || len(first) != 3+64 {
			t.Errorf("%d bytes: %s, then %s", size, first, again)
		}
		if longer := write(append(bytes.Clone(content), 0)); longer == first {
			t.Errorf("%d bytes and one more have one digest", size)
		}
		for _, at := range []int{0, min(size, 1<<20) - 1, size - min(size, 1<<20), size - 1} {
			if size == 0 {
				break
			}
			flipped := bytes.Clone(content)
			flipped[at] ^= 1
			if write(flipped) == first {
				t.Errorf("%d bytes: byte %d makes no difference", size, at)
			}
		}
	}
}

// TestDigestIsOfAllShardsInTheirOrder: where one file ends and the next begins counts, too.
func TestDigestIsOfAllShardsInTheirOrder(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a, b, ab, none := file("a", "a"), file("b", "b"), file("ab", "ab"), file("none", "")
	seen := map[string]int{}
	all := [][]string{{a, b}, {b, a}, {ab}, {ab, none}, {none, ab}, {a}}
	for i, shards := range all {
		digest := digestOf(t, shards...)
		if j, twice := seen[digest]; twice {
			t.Errorf("%v and %v have one digest", all[j], shards)
		}
		seen[digest] = i
	}
	if _, err := appliance.FileDigest(t.Context(), []string{filepath.Join(dir, "missing")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// TestStatusTellsTheDigest of a model's file once it is known, also while its engine does not come up, and the new one
// when the file has been replaced and the configuration is read again.
func TestStatusTellsTheDigest(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.gguf")
	write := func(seed uint64) string {
		if err := enginetest.WriteGGUF(path, enginetest.GGUFOptions{Seed: seed}); err != nil {
			t.Fatal(err)
		}
		return digestOf(t, path)
	}
	want := write(1)
	text := fmt.Sprintf(`node: {name: n, state_dir: %q}
api: {port: %d, host: 127.0.0.1, local: ""}
mesh: {network: lan, open: true, bind_port: %d, lan: {mdns: false}}
models: [{name: m, path: %q, llamacpp: {runner: native, binary: /nonexistent/llama-server}}]
`, dir, freePort(), freePort(), path)
	cfg, err := config.Parse("viiwork.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan string, 1)
	a, err := appliance.New(cfg, appliance.Options{Version: "test", Log: slog.New(slog.DiscardHandler), Ready: func(a ...string) { ready <- a[0] }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	var url string
	select {
	case at := <-ready:
		url = "http://" + at
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	await := func(want string) {
		t.Helper()
		got := ""
		for deadline := time.Now().Add(time.Minute); got != want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the status tells digest %q, want %q", got, want)
			}
			var s status.Node
			readJSON(t, url+"/v1/status", &s)
			got = s.Models[0].Digest
		}
	}
	await(want)
	want = write(2)
	if _, err := a.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	await(want)
}

func readJSON(t *testing.T, url string, to any) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(to); err != nil {
		t.Fatal(err)
	}
}
