package native_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"viiwork/engine"
	"viiwork/engine/enginetest"
	"viiwork/engine/native"
)

// realEngine is a llama-server of this machine.
func realEngine(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("VIIWORK_TEST_ENGINE"); path != "" {
		return path
	}
	path, err := exec.LookPath("llama-server")
	if err != nil {
		t.Skip("no llama-server: set VIIWORK_TEST_ENGINE or put it on PATH")
	}
	return path
}

func realSpec(t *testing.T) engine.Spec {
	t.Helper()
	dir := t.TempDir()
	model := filepath.Join(dir, "m.gguf")
	if err := enginetest.WriteGGUF(model, enginetest.GGUFOptions{}); err != nil {
		t.Fatal(err)
	}
	return engine.Spec{
		Backend: "org/m#0",
		Model:   engine.Model{Name: "m", Binary: realEngine(t)},
		Args:    []string{"-m", model, "-c", "2048", "-np", "1", "-t", "1"},
		Bind:    bind,
		Hash:    "abc",
	}
}

func healthy(t *testing.T, p engine.Process) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Record().URL+"/health", nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("not ready in a minute:\n%s", logOf(t, p, 20, false))
}

func TestRealEngineOutlivesItsNode(t *testing.T) {
	s := realSpec(t)
	state := t.TempDir()
	first := start(t, native.New(native.Config{StateDir: state}), s)
	healthy(t, first)
	found, err := native.New(native.Config{StateDir: state}).Find(t.Context())
	if err != nil || len(found) != 1 {
		t.Fatalf("found %v, %v", found, err)
	}
	healthy(t, found[0])
	if err := found[0].Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	groupGone(t, first.Record().PID)
}

func TestRealEngineTellsWhyItEnds(t *testing.T) {
	s := realSpec(t)
	s.Args = append(s.Args, "--nope")
	p := start(t, native.New(native.Config{StateDir: t.TempDir()}), s)
	if exit := wait(t, p); exit.Code != 1 {
		t.Errorf("exit %+v", exit)
	}
	if log := logOf(t, p, -1, true); !strings.Contains(log, "--nope") {
		t.Errorf("log %q", log)
	}
}

func TestRealEngineIsProbed(t *testing.T) {
	r := native.New(native.Config{StateDir: t.TempDir()})
	m := engine.Model{Binary: realEngine(t)}
	if help, err := r.Probe(t.Context(), m, "--help"); err != nil || !strings.Contains(help, "--slot-save-path") {
		t.Errorf("%d bytes of help, %v", len(help), err)
	}
	if version, err := r.Probe(t.Context(), m, "--version"); err != nil || !strings.Contains(version, "version") {
		t.Errorf("version %q, %v", version, err)
	}
}
