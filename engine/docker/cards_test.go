package docker_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestProgramsRunInsideARunningEngine: the node borrows the driver's tools from there.
func TestProgramsRunInsideARunningEngine(t *testing.T) {
	w := newWorld(t)
	r := w.runner()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p, err := r.Start(ctx, w.spec("m#0"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(context.WithoutCancel(ctx))
	id := p.Record().ID
	const program = "/usr/bin/llama-server"
	if out, err := r.Exec(ctx, id, program, "--version"); err != nil || !strings.Contains(out, "version") {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := r.Exec(ctx, id, program, "--no-such-flag"); err == nil || !strings.Contains(err.Error(), "exit status 1") || !strings.Contains(out, "no-such-flag") {
		t.Errorf("a program that fails: %q, %v", out, err)
	}
	if _, err := r.Exec(ctx, id, "nvidia-smi"); err == nil {
		t.Error("a program that is not there ran")
	}

	// Its caller has enough of it when it runs, and no sooner: one that never began hangs nowhere.
	brief, enough := context.WithCancel(ctx)
	go func() {
		defer enough()
		for ctx.Err() == nil && !w.runs(ctx, id, "9099") {
			time.Sleep(50 * time.Millisecond)
		}
	}()
	if out, err := r.Exec(brief, id, program, "--port", "9099", "--model", filepath.Join(w.models, "m.gguf")); !errors.Is(err, context.Canceled) {
		t.Fatalf("a program that takes for ever: %q, %v", out, err)
	}
	if _, err := r.Exec(ctx, id, program, "--version"); err == nil || !strings.Contains(err.Error(), "hangs") {
		t.Errorf("beside one that hangs another is started: %v", err)
	}
}

// runs reports whether a program with that argument is under way in a container.
func (w *world) runs(ctx context.Context, id, arg string) bool {
	top, err := w.cli.ContainerTop(ctx, id, nil)
	return err == nil && slices.ContainsFunc(top.Processes, func(p []string) bool { return strings.Contains(strings.Join(p, " "), arg) })
}

// TestWithoutAToolkitTheCardsAreNotHandedOn, and Docker's own words say so.
func TestWithoutAToolkitTheCardsAreNotHandedOn(t *testing.T) {
	w := newWorld(t)
	out, err := w.runner().ProbeCards(t.Context(), testImage, "nvidia-smi", "-L")
	if err == nil {
		t.Skipf("this machine has NVIDIA cards: %s", out)
	}
	if !strings.Contains(err.Error(), "nvidia-container-toolkit") {
		t.Errorf("got %v", err)
	}
}
