package mesh_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

// TestWhoTookTheLockHoldsItAtOnce, before its first word, against this node's own second try as well, and gives it back even
// when it is interrupted.
func TestWhoTookTheLockHoldsItAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 3)
		defer h.end()
		held, _ := take(t, h.nodes[0])
		for _, k := range h.nodes {
			if v := k.lock.View(); v.Owner != "n01" || !k.lock.Obeys("n01", held.Token()) {
				t.Errorf("%s sees %+v", k.Name, v)
			}
		}
		var locked *mesh.LockedError
		if _, _, err := h.nodes[0].lock.Take(t.Context()); !errors.As(err, &locked) || locked.Name != "node1" {
			t.Errorf("a second time: %v", err)
		}
		if err := held.Note(t.Context(), bytes.Repeat([]byte("x"), 256<<10+1)); err == nil || !strings.Contains(err.Error(), "too long") {
			t.Errorf("a note that nobody takes: %v", err)
		}
		if err := held.Note(t.Context(), []byte("n02 goes")); err != nil {
			t.Errorf("after all that: %v", err)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		held.Free(over)
		next, note := take(t, h.nodes[1])
		if note != "n02 goes" {
			t.Errorf("the next one finds %q", note)
		}
		next.Free(t.Context())
	})
}

// TestWhoIsInterruptedLeavesNoVoiceBehind: nobody waits two minutes for a node that has given up.
func TestWhoIsInterruptedLeavesNoVoiceBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 3)
		defer h.end()
		ctx, cancel := context.WithCancel(t.Context())
		h.losing(func(_, step string) bool {
			if step == "note" {
				cancel() // it has all voices by then
			}
			return step == "note"
		})
		if _, _, err := h.nodes[0].lock.Take(ctx); err == nil {
			t.Fatal("it holds what nobody heard of")
		}
		h.losing(nil)
		held, _ := take(t, h.nodes[1])
		held.Free(t.Context())
	})
}

// TestAHolderIsOneForAMinuteAfterItsWordWasSent: not after it came, which the holder knows from the answer, later.
func TestAHolderIsOneForAMinuteAfterItsWordWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := buildHall(t, 3)
		h.delay = func() time.Duration { return 5 * time.Second }
		h.begin()
		defer time.Sleep(time.Minute) // what is still on its way comes to nobody
		defer h.end()
		held, _ := take(t, h.nodes[0])
		for range 2 {
			sent := time.Now()
			if err := held.Note(t.Context(), []byte("n02 goes")); err != nil {
				t.Fatal(err)
			}
			if time.Sleep(time.Until(sent.Add(59 * time.Second))); !held.Fresh() {
				t.Error("it does not count on itself for a minute")
			}
			if time.Sleep(2 * time.Second); held.Fresh() {
				t.Error("it counts on itself for longer")
			}
		}
		held.Free(t.Context())
	})
}

// TestWhoCannotKeepItsOwnVoiceDoesNotLead, and asks nobody for theirs. One that holds it already gives it back all the same.
func TestWhoCannotKeepItsOwnVoiceDoesNotLead(t *testing.T) {
	for _, holds := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := newHall(t, 3)
			defer h.end()
			var held *mesh.Held
			if holds {
				held, _ = take(t, h.nodes[0])
			}
			if h.nodes[0].losesDisk(); holds {
				held.Free(t.Context())
				next, _ := take(t, h.nodes[1])
				next.Free(t.Context())
				return
			}
			if _, _, err := h.nodes[0].lock.Take(t.Context()); !errors.Is(err, mesh.ErrLockMinority) || !strings.Contains(err.Error(), "node1: it cannot write its file") {
				t.Errorf("it leads: %v", err)
			}
			if term := h.nodes[2].term(h.nodes[1]); term != 0 {
				t.Errorf("another one was asked for its voice: it stands at %d", term)
			}
		})
	}
}

// TestEachChangeOfTheLockIsTold, and nothing else is, nor written to the disk.
func TestEachChangeOfTheLockIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 3)
		defer h.end()
		k := h.nodes[1]
		told := func(what string, want int64) {
			t.Helper()
			if got := k.told.Swap(0); got != want {
				t.Errorf("%s: told %d times, want %d", what, got, want)
			}
		}
		time.Sleep(30 * time.Second)
		k.told.Store(0)
		held, _ := take(t, h.nodes[0])
		told("a voice and a hold", 2)
		_ = held.Note(t.Context(), []byte("n02 goes"))
		told("a note", 1)
		before, _ := os.Stat(filepath.Join(k.dir, "meshlock.json"))
		for range 10 {
			time.Sleep(20 * time.Second)
			_ = held.Note(t.Context(), []byte("n02 goes"))
		}
		told("that it is still there", 0)
		if after, err := os.Stat(filepath.Join(k.dir, "meshlock.json")); err != nil || !os.SameFile(before, after) {
			t.Errorf("the file was written anew for nothing: %v", err)
		}
		held.Free(t.Context())
		told("the end", 1)
	})
}
