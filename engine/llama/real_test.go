package llama_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/engine"
	"viiwork/engine/enginetest"
	"viiwork/engine/llama"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func response(body []byte) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body))}
}

// realBuild probes the real program as a runner would.
func realBuild(t *testing.T, program string) engine.Build {
	t.Helper()
	print := func(flag string) string {
		out, err := exec.CommandContext(t.Context(), program, flag).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v", flag, err)
		}
		return string(out)
	}
	b := build(t, print("--version"), print("--help"))
	t.Logf("llama-server %s, %d flags", b.Version, len(b.Flags))
	return b
}

// startReal runs the real program with our flags until the test ends, and waits until it is ready.
func startReal(t *testing.T, program string, args []string, key string) engine.Target {
	t.Helper()
	d := llama.New(nil)
	port := enginetest.FreePort(t)
	var log safeBuffer
	cmd := exec.Command(program, append(args, d.Bind("127.0.0.1", port)...)...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("the engine's log:\n%s", log.String())
		}
	})
	target := engine.Target{URL: fmt.Sprintf("http://127.0.0.1:%d", port), Key: key}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		if h, err := d.Check(ctx, target); err == nil && h.Ready {
			return target
		}
		select {
		case <-ended:
			t.Fatal("the engine ended while loading")
		case <-ctx.Done():
			t.Fatal("the engine did not get ready in 2 minutes")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// realOptions writes a tiny model, a key file and a slot directory for the real program.
func realOptions(t *testing.T, key string) engine.Options {
	t.Helper()
	dir := t.TempDir()
	o := engine.Options{
		Model:   engine.Model{Name: "org/tiny", Path: filepath.Join(dir, "tiny.gguf"), Context: 1024, Parallel: 3},
		KeyFile: filepath.Join(dir, "key"), SlotDir: filepath.Join(dir, "slots"), Threads: 1,
	}
	err := errors.Join(
		enginetest.WriteGGUF(o.Model.Path, enginetest.GGUFOptions{}),
		os.WriteFile(o.KeyFile, []byte(key+"\n"), 0o600),
		os.Mkdir(o.SlotDir, 0o700),
	)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestTheRealEngineTakesOurFlags(t *testing.T) {
	program := enginetest.Real(t)
	const key = "real-key"
	d, b, o := llama.New(nil), realBuild(t, program), realOptions(t, key)
	o.Model.Args = []string{"--temp=0", "--override_kv", "tokenizer.ggml.add_bos_token=bool:false"}
	args, err := d.Flags(b, o)
	if err != nil {
		t.Fatal(err)
	}
	target := startReal(t, program, args, key)
	ctx := t.Context()

	if err := d.Prove(ctx, target, o.Model.Name); err != nil {
		t.Error(err)
	}
	if err := d.Prove(ctx, engine.Target{URL: target.URL, Key: "wrong"}, o.Model.Name); err == nil || !strings.Contains(err.Error(), "status 401") {
		t.Errorf("with a wrong key: got %v, want the engine's 401", err)
	}
	p, err := d.Props(ctx, target)
	if err != nil || p.Context != 1024 || p.Slots != 3 || p.Build == "" {
		t.Errorf("props are %+v, %v; want 3 slots of 1024 tokens and a build", p, err)
	}
	slots, err := d.Slots(ctx, target)
	if err != nil || len(slots) != 3 {
		t.Fatalf("slots are %+v, %v; want 3", slots, err)
	}
	held := 0
	for _, s := range slots {
		held += s.Tokens
	}
	if held == 0 {
		t.Error("no slot holds the tokens of the proof")
	}
	crossOrigin(t, target)
}

// crossOrigin makes sure that a page from elsewhere gets nothing a browser would accept.
func crossOrigin(t *testing.T, target engine.Target) {
	t.Helper()
	for _, origin := range []string{"http://evil.example", "null"} {
		for _, method := range []string{http.MethodGet, http.MethodOptions} {
			req, err := http.NewRequestWithContext(t.Context(), method, target.URL+"/v1/models", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Origin", origin)
			req.Header.Set("Access-Control-Request-Method", http.MethodPost)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			h := resp.Header
			if allow := h.Get("Access-Control-Allow-Origin"); allow == origin || allow == "*" || h.Get("Access-Control-Allow-Credentials") == "true" {
				t.Errorf("%s from %s is allowed to %q, credentials %q", method, origin, allow, h.Get("Access-Control-Allow-Credentials"))
			}
		}
	}
}

// With 3 slots: a number that does not divide the server's own batch once ended it while it loaded.
func TestTheRealEngineServesEmbeddingsInThreeSlots(t *testing.T) {
	program := enginetest.Real(t)
	const key = "real-key"
	d, b, o := llama.New(nil), realBuild(t, program), realOptions(t, key)
	o.Model.Args = []string{"--embeddings", "--pooling", "mean"}
	args, err := d.Flags(b, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Prove(t.Context(), startReal(t, program, args, key), o.Model.Name); err != nil {
		t.Error(err)
	}
}

// The help of the real build is the ground truth for what Build reads: a value flag given without a value, and a plain
// flag given with one, both end the engine at once.
func TestTheRealEngineAgreesOnUnknownFlags(t *testing.T) {
	program := enginetest.Real(t)
	b, o := realBuild(t, program), realOptions(t, "k")
	for _, own := range [][]string{{"--nope"}, {"--metrics", "on"}, {"--temp"}, {"--draft-max", "4"}} {
		o.Model.Args = own
		if _, err := llama.New(nil).Flags(b, o); err == nil {
			t.Errorf("%q passed our check", own)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		args := append([]string{"-m", o.Model.Path, "--port", "0"}, own...)
		if err := exec.CommandContext(ctx, program, args...).Run(); err == nil || ctx.Err() != nil {
			t.Errorf("%q: the engine ran on (%v), so our check is too strict", own, err)
		}
		cancel()
	}
}
