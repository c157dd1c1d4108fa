package kvshare_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"viiwork/appliance/kvshare"
	"viiwork/engine"
)

// slow makes states of 1,200 tokens take a quarter of a second.
var slow = []string{"--fake-state-bytes", "2048", "--fake-save-bps", "10000000"}

// slower makes them take two seconds, in which what is looked for is seen by a loaded machine too.
var slower = []string{"--fake-state-bytes", "2048", "--fake-save-bps", "1250000"}

// displace runs others until the conversation has lost its slot and is stored.
func (h *host) displace(c *talk) {
	h.Helper()
	for i := range h.model.Parallel {
		h.turn(newTalk(strings.Repeat(strconv.Itoa(i), 3), 700+100*i))
	}
	h.saved(c)
}

// kill ends the engine's process as the kernel does when memory is short.
func (h *host) kill() {
	h.Helper()
	pid, err := strconv.Atoi(strings.TrimPrefix(h.state().Process, "pid "))
	if err != nil {
		h.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		h.Fatal(err)
	}
}

// recovers waits for the next engine, of which the share is told as by a gateway.
func (h *host) recovers(restarts int) {
	h.Helper()
	h.await("the engine is back", func() bool { b := h.state(); return b.State == engine.StateReady && b.Restarts >= restarts })
	h.Forget(backend)
	h.known.Forget(backend)
}

// acting waits until there is a file of that kind in the engine's folder.
func (h *host) acting(suffix string) {
	h.Helper()
	dir, _ := h.engine.SlotFolder(backend)
	h.await("a file "+suffix, func() bool {
		found, _ := filepath.Glob(filepath.Join(dir, "*"+suffix))
		return len(found) > 0
	})
}

// TestADamagedStoreCostsACacheAndNoAnswer, whichever bytes are wrong or missing.
func TestADamagedStoreCostsACacheAndNoAnswer(t *testing.T) {
	t.Parallel()
	h := newHost(t, plan{})
	for name, damage := range map[string]func([]byte) []byte{
		"flipped": func(b []byte) []byte {
			b = bytes.Clone(b)
			for i := 500; i < len(b); i += 1000 {
				b[i] ^= 1
			}
			return b
		},
		"truncated": func(b []byte) []byte { return b[:len(b)/2] },
		"gone":      func([]byte) []byte { return nil },
	} {
		c := newTalk(name, 1500)
		h.turn(c)
		h.displace(c)
		h.spoil(damage)
		h.turn(c, c.own())
		if c.moved != "" || c.cached > 100 {
			t.Errorf("%s: it came by %q with %d tokens", name, c.moved, c.cached)
		}
		held := c.held
		h.displace(c)
		if h.turn(c, c.own()); c.moved != "import" || !c.warm(held) {
			t.Errorf("%s: what was saved after that came by %q with %d of %d tokens\n%s", name, c.moved, c.cached, held, h.log)
		}
	}
	h.isTidy()
	if k := h.Report("n"); !k.Models[0].Enabled {
		t.Errorf("a damaged store is held against the engine: %+v", k.Models)
	}
}

// spoil changes what the store has on the disk.
func (h *host) spoil(damage func([]byte) []byte) {
	h.Helper()
	err := filepath.WalkDir(filepath.Join(h.dir, "kv", "packs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, damage(b), 0o600)
	})
	if err != nil {
		h.Fatal(err)
	}
}

// TestAStoreWithoutRoomCostsNoAnswer, and nobody is told that it has what it has not.
func TestAStoreWithoutRoomCostsNoAnswer(t *testing.T) {
	t.Parallel()
	h := newHost(t, plan{budget: 64 << 10, args: []string{"--fake-state-bytes", "2048"}})
	c := newTalk("one", 1200)
	h.turn(c)
	for i := range 3 {
		h.turn(newTalk(strings.Repeat(strconv.Itoa(i), 3), 800))
	}
	h.await("it was tried", func() bool { return h.log.count("a saved cache is not kept") > 0 })
	h.turn(c, c.own())
	if c.moved != "" {
		t.Errorf("it came by %q", c.moved)
	}
	h.isTidy()
	h.await("nothing is told to be stored", func() bool { return len(h.known.Find("m", c.session, c.chain).Stored) == 0 })
}

// TestAnEngineThatEndsWhileItSavesOrRestores is held against no state, and leaves nothing behind.
func TestAnEngineThatEndsWhileItSavesOrRestores(t *testing.T) {
	t.Parallel()
	h := newHost(t, plan{args: slower})
	c := newTalk("one", 1200)
	h.turn(c)
	h.turn(newTalk("two", 1200))
	other := newTalk("six", 1200)
	other.says("> ")
	done := make(chan error, 1)
	go func() {
		r, err := h.begin(context.Background(), other, 8)
		if err == nil {
			r.end()
		}
		done <- err
	}()
	h.acting(".kv")
	h.kill()
	if err := <-done; err == nil {
		t.Error("an answer came out of an engine that was killed")
	}
	h.recovers(1)
	h.isTidy()
	h.turn(c)
	if c.cached > 100 {
		t.Errorf("an engine that began anew has %d tokens", c.cached)
	}
	h.displace(c)
	c.says("> ")
	go func() {
		r, err := h.begin(context.Background(), c, 8, c.own())
		if err == nil {
			r.end()
		}
		done <- err
	}()
	h.restoring()
	h.kill()
	if err := <-done; err == nil {
		t.Error("an answer came out of an engine that was killed")
	}
	h.recovers(2)
	held := c.held
	if h.turn(c, c.own()); c.moved != "import" || !c.warm(held) {
		t.Errorf("it came by %q with %d of %d tokens", c.moved, c.cached, held)
	}
	h.isTidy()
}

// restoring waits until the engine has the file open that it is to restore.
func (h *host) restoring() {
	h.Helper()
	if runtime.GOOS != "linux" {
		h.Skip("which files a program has open is looked up in /proc")
	}
	fds := filepath.Join("/proc", strings.TrimPrefix(h.state().Process, "pid "), "fd/*")
	h.await("it restores", func() bool {
		open, _ := filepath.Glob(fds)
		return slices.ContainsFunc(open, func(fd string) bool {
			to, err := os.Readlink(fd)
			return err == nil && strings.HasSuffix(to, ".in")
		})
	})
}

// hasRestored waits until the engine is through with what nobody waits for any more. A turn that asks it for its slots does not
// wait so long, and goes without its cache.
func (h *host) hasRestored() {
	h.Helper()
	h.await("the engine tells of its slots", func() bool {
		_, err := h.engine.AskSlots(context.Background(), backend)
		return err == nil
	})
}

// TestWhoLeavesWhileItsCacheComes leaves nothing behind, spoils nobody's cache, and is held against no state.
func TestWhoLeavesWhileItsCacheComes(t *testing.T) {
	t.Parallel()
	h := newHost(t, plan{args: slower})
	c := newTalk("one", 1200)
	h.turn(c)
	h.displace(c)
	held := c.held
	for range 4 { // more often than a model is given up after
		gone := *c
		gone.says("> ")
		ctx, leave := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			r, err := h.begin(ctx, &gone, 8, c.own())
			if err == nil {
				r.drop()
			}
			done <- err
		}()
		h.restoring()
		leave()
		<-done
		h.isTidy()
		h.hasRestored()
	}
	if h.turn(c, c.own()); c.moved != "import" || !c.warm(held) {
		t.Errorf("it came by %q with %d of %d tokens\n%s", c.moved, c.cached, held, h.log)
	}
}

// TestWhoLeavesWhileAnotherIsSaved does not keep that one from being saved later.
func TestWhoLeavesWhileAnotherIsSaved(t *testing.T) {
	t.Parallel()
	h := newHost(t, plan{slots: 1, args: slower})
	c := newTalk("one", 1200)
	h.turn(c)
	gone := newTalk("two", 1000)
	gone.says("> ")
	ctx, leave := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		r, err := h.begin(ctx, gone, 8)
		if err == nil {
			r.drop()
		}
		done <- err
	}()
	h.acting(".kv")
	leave()
	if err := <-done; err == nil {
		t.Error("the one who left has an answer")
	}
	held := c.held
	h.displace(c)
	if h.turn(c, c.own()); c.moved != "import" || !c.warm(held) {
		t.Errorf("it came by %q with %d of %d tokens", c.moved, c.cached, held)
	}
	h.isTidy()
}

// TestWhoWantsASeatWhileASaveRuns is answered after it.
func TestWhoWantsASeatWhileASaveRuns(t *testing.T) {
	t.Parallel()
	h := newHost(t, plan{args: slower})
	c := newTalk("one", 1200)
	h.turn(c)
	asked := make(chan struct{})
	go func() { defer close(asked); h.saved(c) }()
	h.acting(".kv")
	a, b := newTalk("two", 1000), newTalk("six", 1000)
	h.turn(a)
	h.turn(b)
	<-asked
	held := c.held
	if h.turn(c, c.own()); c.moved != "import" || !c.warm(held) {
		t.Errorf("it came by %q with %d of %d tokens", c.moved, c.cached, held)
	}
	h.isTidy()
}

// TestOffMovesNothing and says so.
func TestOffMovesNothing(t *testing.T) {
	t.Parallel()
	h := newHost(t, plan{mode: kvshare.Off})
	c := newTalk("one", 1200)
	h.turn(c)
	for i := range 3 {
		h.turn(newTalk(strings.Repeat(strconv.Itoa(i), 3), 800))
	}
	h.turn(c, c.own())
	if c.moved != "" || h.store.Usage().Replicas != 0 || h.Figures("m") != nil {
		t.Errorf("it came by %q; %+v", c.moved, h.Report("n"))
	}
	h.isTidy()
}
