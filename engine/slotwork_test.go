package engine_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"viiwork/engine"
)

// stuck is an engine with a request under way that owes it something and shows no progress.
func stuck(t *testing.T) (*house, *fakeProcess) {
	h := newHouse(t)
	p := leftOver(h, h.model("m", 1, 2), busySlots(1, 2))
	pass(3 * time.Second)
	return h, p
}

func TestASaveIsNoSilence(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, p := stuck(t)
		p.fake.set(func(f *fakeEngine) {
			f.checkErr = errors.New("no answer") // it does nothing else
			f.save = func(ctx context.Context, path string) (engine.SlotFile, error) {
				if !slept(ctx, 4*time.Minute) {
					return engine.SlotFile{}, ctx.Err()
				}
				f.set(func(f *fakeEngine) { f.checkErr = nil })
				return writes(0o600)(ctx, path)
			}
		})
		if _, _, err := h.SaveSlot(t.Context(), "m#0", 0); err != nil {
			t.Fatalf("a save of four minutes: %v", err)
		}
		pass(100 * time.Second)
		if !p.alive() {
			t.Fatal("the engine was restarted for its save")
		}
		pass(60 * time.Second)
		if !p.wasStopped() {
			t.Error("an engine without progress for 120 s after its save runs on")
		}
	})
}

func TestAnEngineThatHangsInARestoreIsGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, p := stuck(t)
		p.fake.set(func(f *fakeEngine) { f.restore, f.checkErr = hangs, errors.New("no answer") })
		path, _, err := h.SaveSlot(t.Context(), "m#0", 0)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for p.alive() && time.Since(began) < time.Hour {
			if _, err := h.RestoreSlot(t.Context(), "m#0", 1, path); err == nil {
				t.Fatal("a restore that hung went well")
			}
			pass(time.Second)
		}
		if took := time.Since(began); took > 8*time.Minute {
			t.Errorf("it was given up after %s", took)
		}
	})
}

func TestAnEngineThatIsOnlyAskedToSaveIsNotDead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, p := ready(t)
		p.fake.set(func(f *fakeEngine) { f.save, f.checkErr = hangs, errors.New("no answer") })
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if _, _, err := h.SaveSlot(ctx, "m#0", 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ended with %v", err)
		}
		if !p.alive() {
			t.Error("an engine in a save was taken for dead by its health")
		}
	})
}

func TestASaveInAnEngineThatEndsSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, p := ready(t)
		p.fake.set(func(f *fakeEngine) {
			f.save = func(context.Context, string) (engine.SlotFile, error) {
				p.die("killed by SIGKILL")
				return engine.SlotFile{}, io.ErrUnexpectedEOF
			}
		})
		_, _, err := h.SaveSlot(t.Context(), "m#0", 0)
		if err == nil || !strings.Contains(err.Error(), "ended") || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("it ended with %v, want that the engine has", err)
		}
		pass(5 * time.Second)
		h.want("m#0", engine.StateReady)
		if slots := h.state("m#0").Slots; len(slots) != 2 || slots[0].State != "free" || slots[1].State != "free" {
			t.Errorf("slots afterwards: %+v", slots)
		}
	})
}

func TestARemovedModelEndsItsSaves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, p := ready(t)
		p.fake.set(func(f *fakeEngine) { f.save = hangs })
		ended := make(chan error, 1)
		go func() {
			_, _, err := h.SaveSlot(context.Background(), "m#0", 0)
			ended <- err
		}()
		pass(time.Second)
		h.Apply(nil)
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "stopped") {
			t.Errorf("it ended with %v", err)
		}
	})
}

// slept reports whether d passed before ctx ended.
func slept(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
