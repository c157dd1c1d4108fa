package engine_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"viiwork/engine"
)

func TestASlotIsSavedAndRestored(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, p := ready(t)
		p.fake.set(func(f *fakeEngine) { f.save = writes(0o644) }) // as in a container, which has a umask of its own
		path, saved, err := h.SaveSlot(t.Context(), "m#0", 1)
		if err != nil || saved.Tokens != 10 {
			t.Fatalf("saved %+v, %v", saved, err)
		}
		dir, ok := h.SlotFolder("m#0")
		info, serr := os.Stat(path)
		if !ok || filepath.Dir(path) != dir || serr != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file %s of folder %s: %v, %v; want it there with 0600", path, dir, info.Mode(), serr)
		}
		another, _, err := h.SaveSlot(t.Context(), "m#0", 1)
		if err != nil || another == path {
			t.Errorf("the next save went to %s, %v; want a file of its own", another, err)
		}
		if restored, err := h.RestoreSlot(t.Context(), "m#0", 0, path); err != nil || restored.Tokens != 10 {
			t.Errorf("restored %+v, %v", restored, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("the caller's file: %v", err)
		}
		slots, err := h.AskSlots(t.Context(), "m#0")
		if err != nil || len(slots) != 1 {
			t.Errorf("asked for the slots: %+v, %v", slots, err)
		}
	})
}

func TestWhatCannotBeSavedIsToldApart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, _ := ready(t)
		foreign, _ := h.external("x", 1)
		slow, plain := h.model("slow", 1, 1), h.model("plain", 1, 1)
		h.dialect.flags = func(o engine.Options) ([]string, error) { return []string{"-m", o.Model.Path}, nil }
		h.Apply([]engine.Model{h.Snapshot()[0].Model, foreign, plain, slow})
		pass(10 * time.Second)
		h.runner.of("slow#0")[0].die("killed")
		pass(time.Millisecond)
		for backend, want := range map[string]error{
			"x#0": engine.ErrNoSlotFiles, "plain#0": engine.ErrNoSlotFiles, "slow#0": engine.ErrNotReady, "none#0": engine.ErrUnknownBackend,
		} {
			if path, _, err := h.SaveSlot(t.Context(), backend, 0); !errors.Is(err, want) || path != "" {
				t.Errorf("saving a slot of %s: %q, %v; want %v", backend, path, err, want)
			}
			if _, ok := h.SlotFolder(backend); ok {
				t.Errorf("%s has a slot folder", backend)
			}
			if _, ok := h.KVTraits(backend); ok {
				t.Errorf("%s has traits", backend)
			}
		}
		for _, slot := range []int{-1, 2, 1 << 40} {
			if _, _, err := h.SaveSlot(t.Context(), "m#0", slot); err == nil {
				t.Errorf("slot %d of 2 was saved", slot)
			}
		}
		if slots, err := h.AskSlots(t.Context(), "x#0"); err != nil || len(slots) != 1 {
			t.Errorf("the slots of a foreign server: %v, %v", slots, err)
		}
		if _, err := h.AskSlots(t.Context(), "none#0"); !errors.Is(err, engine.ErrUnknownBackend) {
			t.Errorf("the slots of no backend: %v", err)
		}
	})
}

func TestTraitsAreOfTheEngineThatRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.runner.made = func(p *fakeProcess) { p.fake.props = engine.Props{Slots: 4, Build: "b11669-Debian"} }
		m := h.model("m", 1, 2)
		m.Args = []string{"-ctk", "q8_0"}
		h.run(m)
		if _, ok := h.KVTraits("m#0"); ok {
			t.Error("there are traits before there is an engine")
		}
		pass(2 * time.Second)
		want := engine.KVTraits{Build: "b11669-Debian", TypeK: "q8_0", TypeV: "f16", Unified: true, Slots: 4, Flash: true}
		if got, ok := h.KVTraits("m#0"); !ok || got != want {
			t.Errorf("traits are %+v, %v; want %+v", got, ok, want)
		}
		h.remake()
		h.run(m)
		pass(2 * time.Second)
		if got, ok := h.KVTraits("m#0"); !ok || got != want || !h.state("m#0").Adopted {
			t.Errorf("traits of an adopted engine are %+v, %v; want %+v", got, ok, want)
		}
	})
}

func TestABadSaveLeavesNoFile(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, p := ready(t)
		for name, save := range map[string]func(context.Context, string) (engine.SlotFile, error){
			"refused": func(_ context.Context, path string) (engine.SlotFile, error) {
				os.WriteFile(path, []byte("a part"), 0o600)
				return engine.SlotFile{}, engine.ErrSlotRefused
			},
			"cut short": func(_ context.Context, path string) (engine.SlotFile, error) {
				return engine.SlotFile{Tokens: 10, Bytes: 1000}, os.WriteFile(path, []byte("a part"), 0o600)
			},
			"a link": func(_ context.Context, path string) (engine.SlotFile, error) {
				return engine.SlotFile{Tokens: 10, Bytes: 1000}, os.Symlink("/etc/passwd", path)
			},
			"written elsewhere": func(context.Context, string) (engine.SlotFile, error) {
				return engine.SlotFile{Tokens: 10, Bytes: 1000}, nil
			},
		} {
			p.fake.set(func(f *fakeEngine) { f.save = save })
			if path, f, err := h.SaveSlot(t.Context(), "m#0", 0); err == nil || path != "" || f != (engine.SlotFile{}) {
				t.Errorf("%s: %q, %+v, %v; want an error", name, path, f, err)
			}
			if left := h.files("m#0"); len(left) != 0 {
				t.Errorf("%s: %q are left", name, left)
			}
		}
	})
}

func TestOnlyFilesOfTheBackendsFolderAreRestored(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, p := ready(t)
		p.fake.set(func(f *fakeEngine) {
			f.restore = func(_ context.Context, path string) (engine.SlotFile, error) {
				t.Errorf("the engine was asked to restore %s", path)
				return engine.SlotFile{}, nil
			}
		})
		dir, _ := h.SlotFolder("m#0")
		outside := filepath.Join(h.dir, "outside.kv")
		link, sub := filepath.Join(dir, "link.kv"), filepath.Join(dir, "sub")
		if err := errors.Join(os.WriteFile(outside, nil, 0o600), os.Symlink(outside, link), os.Mkdir(sub, 0o700)); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{outside, link, sub, "", "a.kv", filepath.Join(sub, "a.kv"), dir + "/../m/a.kv", filepath.Join(dir, "missing.kv")} {
			if _, err := h.RestoreSlot(t.Context(), "m#0", 0, path); err == nil {
				t.Errorf("%q was restored", path)
			}
		}
	})
}

func TestASaveThatNobodyWaitsForLeavesNoFile(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, p := ready(t)
		var late string
		p.fake.set(func(f *fakeEngine) {
			f.save = func(ctx context.Context, path string) (engine.SlotFile, error) {
				late = path
				return hangs(ctx, path)
			}
		})
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, io.ErrNoProgress)
		defer cancel()
		if _, _, err := h.SaveSlot(ctx, "m#0", 0); !errors.Is(err, io.ErrNoProgress) {
			t.Errorf("the save ended with %v, want the reason its context has", err)
		}
		pass(20 * time.Minute) // for as long its slot was busy
		if err := os.WriteFile(late, []byte(tenTokens), 0o600); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		if left := h.files("m#0"); len(left) != 0 {
			t.Errorf("%q are left", left)
		}
	})
}

func TestNothingIsLeftInTheFoldersOfSlots(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, p := ready(t)
		leave := func() string {
			dir, _ := h.SlotFolder("m#0")
			if err := os.WriteFile(filepath.Join(dir, "left.kv"), []byte(tenTokens), 0o600); err != nil {
				t.Fatal(err)
			}
			return dir
		}
		dir := leave()
		p.die("killed")
		pass(5 * time.Second)
		if left := h.files("m#0"); len(left) != 0 {
			t.Errorf("%q are there for the next engine", left)
		}
		leave()
		m := h.Snapshot()[0].Model
		h.stop()
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 {
			t.Errorf("%q are left after the node has gone", left)
		}
		if err := os.WriteFile(filepath.Join(dir, "left.kv"), []byte(tenTokens), 0o600); err != nil {
			t.Fatal(err)
		}
		h.remake()
		h.run(m)
		pass(5 * time.Second)
		if left := h.files("m#0"); len(left) != 0 || !h.state("m#0").Adopted {
			t.Errorf("%q are there for an adopted engine", left)
		}
		leave()
		h.Apply(nil)
		pass(5 * time.Second)
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the folder of a removed backend: %v", err)
		}
	})
}

func TestFoldersOfBackendsThatAreNoMoreGo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		m := h.model("m", 1, 1)
		stranger := filepath.Join(h.cfg.StateDir, "slots", "gone-12345678")
		mine := filepath.Join(h.cfg.StateDir, "slots", engine.SafeName("m#0"))
		for _, dir := range []string{stranger, mine} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		h.run(m)
		pass(time.Second)
		if _, err := os.Stat(stranger); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the folder of a backend that is no more: %v", err)
		}
		if _, err := os.Stat(mine); err != nil {
			t.Errorf("the folder of one that is: %v", err)
		}
	})
}

func TestTheSpoolIsWhereItWasSaid(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		spool := filepath.Join(t.TempDir(), "spool")
		h, p := ready(t, func(c *engine.Config) { c.Spool = spool })
		dir, ok := h.SlotFolder("m#0")
		if !ok || !strings.HasPrefix(dir, filepath.Join(spool, "slots")+"/") || p.spec.SlotDir != dir {
			t.Errorf("slots go to %s, the engine was told %s; want it under %s", dir, p.spec.SlotDir, spool)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the folder: %v, %v", info.Mode(), err)
		}
		if err := os.RemoveAll(spool); err != nil { // as some systems do when their user has logged out
			t.Fatal(err)
		}
		if _, _, err := h.SaveSlot(t.Context(), "m#0", 0); err != nil {
			t.Errorf("saving into a folder that somebody took away: %v", err)
		}
	})
}
