package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"viiwork/engine"
)

const tenTokens = "what ten tokens leave in a slot"

func (d *fakeDialect) Save(ctx context.Context, t engine.Target, slot int, file string) (engine.SlotFile, error) {
	return d.slotFile(ctx, t, file, func(f *fakeEngine) func(context.Context, string) (engine.SlotFile, error) { return f.save })
}

func (d *fakeDialect) Restore(ctx context.Context, t engine.Target, slot int, file string) (engine.SlotFile, error) {
	return d.slotFile(ctx, t, file, func(f *fakeEngine) func(context.Context, string) (engine.SlotFile, error) {
		if f.restore == nil {
			return reads
		}
		return f.restore
	})
}

func (d *fakeDialect) slotFile(ctx context.Context, t engine.Target, file string,
	of func(*fakeEngine) func(context.Context, string) (engine.SlotFile, error)) (engine.SlotFile, error) {
	f := d.at(t.URL)
	f.mu.Lock()
	act, dir := of(f), f.slotDir
	f.mu.Unlock()
	if filepath.Base(file) != file {
		return engine.SlotFile{}, errors.New("the engine was given more than a name: " + file)
	}
	if act == nil {
		act = writes(0o600)
	}
	return act(ctx, filepath.Join(dir, file))
}

func (d *fakeDialect) Traits(_ engine.Build, args []string, env map[string]string) engine.KVTraits {
	t := engine.KVTraits{TypeK: "f16", TypeV: "f16", Unified: true, Flash: true}
	if i := slices.Index(args, "-ctk"); i >= 0 {
		t.TypeK = args[i+1]
	}
	return t
}

// writes makes a file as an engine with that umask does.
func writes(mode os.FileMode) func(context.Context, string) (engine.SlotFile, error) {
	return func(_ context.Context, path string) (engine.SlotFile, error) {
		err := os.WriteFile(path, []byte(tenTokens), mode)
		return engine.SlotFile{Tokens: 10, Bytes: int64(len(tenTokens)), Took: time.Millisecond}, err
	}
}

func reads(_ context.Context, path string) (engine.SlotFile, error) {
	data, err := os.ReadFile(path)
	return engine.SlotFile{Tokens: 10, Bytes: int64(len(data)), Took: time.Millisecond}, err
}

// hangs answers when ctx ends, as an engine that is stuck in its action.
func hangs(ctx context.Context, _ string) (engine.SlotFile, error) {
	<-ctx.Done()
	return engine.SlotFile{}, ctx.Err()
}

// files lists what lies in a backend's slot folder.
func (h *house) files(backend string) []string {
	h.t.Helper()
	dir, ok := h.SlotFolder(backend)
	if !ok {
		h.t.Fatalf("%s has no slot folder", backend)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		h.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// ready runs a house with one model of two slots on fake time until its engine is ready.
func ready(t *testing.T, change ...func(*engine.Config)) (*house, *fakeProcess) {
	h := newHouse(t, change...)
	h.run(h.model("m", 1, 2))
	pass(2 * time.Second)
	h.want("m#0", engine.StateReady)
	return h, h.runner.all()[0]
}
