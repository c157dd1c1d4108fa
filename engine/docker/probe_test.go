package docker_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"viiwork/engine"
	"viiwork/engine/docker"
)

func TestProbeLeavesNothingWhateverHappens(t *testing.T) {
	w := newWorld(t)
	r := w.runner()
	m := engine.Model{Image: testImage}
	help, err := r.Probe(t.Context(), m, "--help")
	if err != nil || !strings.Contains(help, "--slot-save-path") {
		t.Fatalf("help %q, %v", help, err)
	}
	if out, err := r.Probe(t.Context(), m, "--version"); err != nil || !strings.Contains(out, "version") {
		t.Errorf("version %q, %v", out, err)
	}
	if out, err := r.Probe(t.Context(), m, "--nope"); err == nil || !strings.Contains(out, "--nope") {
		t.Errorf("a program that fails: %q, %v; want its words and an error", out, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := r.Probe(ctx, m, "--host", "127.0.0.1"); err == nil { // a server without a model waits for ever
		t.Error("a probe that does not end was taken for a good one")
	}
	if list := w.containers(); len(list) > 0 {
		t.Errorf("%d probe containers left", len(list))
	}
}

func TestRunnerLeavesNoGoroutine(t *testing.T) {
	w := newWorld(t)
	before := runtime.NumGoroutine()
	r := docker.New(docker.Config{Node: w.node, StateDir: w.state, UID: w.uid, GID: w.gid})
	spec := w.spec("m#0")
	spec.Args = []string{"--version"}
	p := w.start(r, spec)
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Close()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if runtime.NumGoroutine() <= before {
			return // closed connections end in their own time
		}
	}
	stacks := make([]byte, 1<<16)
	t.Errorf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
}
