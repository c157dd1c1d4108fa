package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"viiwork/engine"
)

// TestWithoutRoomTheNewEngineWaitsForTheOldOnesEnd, and not just for its last request to be refused.
func TestWithoutRoomTheNewEngineWaitsForTheOldOnesEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		m := h.model("m", 1, 1)
		h.run(m)
		pass(5 * time.Second)
		l := h.acquire(engine.Request{Model: "m"})
		h.Apply([]engine.Model{newProgram(m)})
		pass(20 * time.Second) // it has half a minute
		if len(h.alive("llama-server")) != 1 || len(h.alive("llama-server-new")) != 0 {
			t.Errorf("%d old and %d new ones while a request runs", len(h.alive("llama-server")), len(h.alive("llama-server-new")))
		}
		l.Release()
		pass(10 * time.Second)
		if len(h.alive("llama-server")) != 0 || len(h.alive("llama-server-new")) != 1 {
			t.Errorf("%d old and %d new ones at last", len(h.alive("llama-server")), len(h.alive("llama-server-new")))
		}
		h.want("m#0", engine.StateReady)
	})
}

// TestNextBackendWaitsForTheOldEngineThatDrains: with it there is one engine beyond what was planned already.
func TestNextBackendWaitsForTheOldEngineThatDrains(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t, roomy)
		m := h.model("m", 2, 1)
		h.run(m)
		pass(5 * time.Second)
		first, second := h.acquire(engine.Request{Model: "m"}), h.acquire(engine.Request{Model: "m"})
		h.Apply([]engine.Model{newProgram(m)})
		pass(2 * time.Minute)
		if old, fresh := len(h.alive("llama-server")), len(h.alive("llama-server-new")); old != 2 || fresh != 1 {
			t.Errorf("%d old and %d new ones while the first drains", old, fresh)
		}
		first.Release()
		second.Release()
		pass(time.Minute)
		if old, fresh := len(h.alive("llama-server")), len(h.alive("llama-server-new")); old != 0 || fresh != 2 {
			t.Errorf("%d old and %d new ones at last", old, fresh)
		}
	})
}

// TestReloadInTheMiddleOfAChangeDoesNotBeginItAnew.
func TestReloadInTheMiddleOfAChangeDoesNotBeginItAnew(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t, roomy)
		m := h.model("m", 1, 1)
		h.run(m)
		pass(5 * time.Second)
		h.runner.loads = 20 * time.Second
		for range 3 {
			h.Apply([]engine.Model{newProgram(m)})
			pass(8 * time.Second)
		}
		if b := h.want("m#0", engine.StateReady); b.Change != nil || len(h.runner.all()) != 2 || len(h.alive("llama-server-new")) != 1 {
			t.Errorf("%d engines were started, %+v", len(h.runner.all()), b.Change)
		}
	})
}

// TestNewImageIsANewProgram, as a new binary is.
func TestNewImageIsANewProgram(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t, roomy)
		m := h.model("m", 1, 1)
		m.Image = "engine:old"
		h.run(m)
		pass(5 * time.Second)
		h.runner.loads = 20 * time.Second
		m.Image = "engine:new"
		h.Apply([]engine.Model{m})
		pass(10 * time.Second)
		h.takesNewRequests("m")
		if c := h.state("m#0").Change; c == nil || c.State != engine.StateLoading || !h.runner.of("m#0")[0].alive() {
			t.Errorf("while it loads: %+v", c)
		}
		pass(20 * time.Second)
		if all := h.runner.all(); len(all) != 2 || all[0].alive() || all[1].spec.Model.Image != "engine:new" {
			t.Errorf("%d engines were started", len(all))
		}
	})
}

// TestOldEngineThatDiesIsNotWaitedFor, though somebody holds a lease of it: the next change may come.
func TestOldEngineThatDiesIsNotWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t, roomy)
		m := h.model("m", 1, 1)
		h.run(m)
		pass(5 * time.Second)
		l := h.acquire(engine.Request{Model: "m"})
		defer l.Release()
		h.Apply([]engine.Model{newProgram(m)})
		pass(10 * time.Second)
		if c := h.state("m#0").Change; c == nil || c.State != engine.StateDraining {
			t.Fatalf("while it drains: %+v", c)
		}
		h.runner.of("m#0")[0].die("killed by SIGKILL")
		pass(2 * time.Second)
		if b := h.want("m#0", engine.StateReady); b.Change != nil {
			t.Errorf("once it is dead: %+v", b.Change)
		}
	})
}

// TestNodesEndDoesNotWaitForAnOldEngine: it would for as long as a stream lasts.
func TestNodesEndDoesNotWaitForAnOldEngine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t, roomy)
		m := h.model("m", 1, 1)
		h.run(m)
		pass(5 * time.Second)
		l := h.acquire(engine.Request{Model: "m"})
		defer l.Release()
		h.Apply([]engine.Model{newProgram(m)})
		pass(10 * time.Second)
		ends := time.Now()
		if h.stop(); time.Since(ends) > 20*time.Second {
			t.Errorf("it ended after %v", time.Since(ends))
		}
		if old, fresh := len(h.alive("llama-server")), len(h.alive("llama-server-new")); old != 0 || fresh != 1 {
			t.Errorf("%d old and %d new ones are left", old, fresh)
		}
	})
}

// TestSavesThatDoNotEndHoldUpNoChange.
func TestSavesThatDoNotEndHoldUpNoChange(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t, roomy, func(c *engine.Config) {
			c.BeforeSwitch = func(ctx context.Context, _ string) { <-ctx.Done() }
		})
		m := h.model("m", 1, 1)
		h.run(m)
		pass(5 * time.Second)
		h.Apply([]engine.Model{newProgram(m)})
		pass(45 * time.Second)
		if b := h.want("m#0", engine.StateReady); b.Change != nil || len(h.alive("llama-server-new")) != 1 {
			t.Errorf("%+v", b.Change)
		}
	})
}

// TestEngineWhoseKeyIsLostIsReplaced: it would answer to nothing that this run knows.
func TestEngineWhoseKeyIsLostIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		m := h.model("m", 1, 1)
		h.run(m)
		pass(5 * time.Second)
		h.stop()
		keys, _ := filepath.Glob(filepath.Join(h.cfg.StateDir, "engines", "*.key"))
		if len(keys) != 1 || os.Remove(keys[0]) != nil {
			t.Fatalf("keys %v", keys)
		}
		h.remake()
		h.run(m)
		pass(time.Minute)
		if b := h.want("m#0", engine.StateReady); b.Adopted || len(h.alive(m.Binary)) != 1 || len(h.runner.all()) != 2 {
			t.Errorf("adopted %v, %d live of %d", b.Adopted, len(h.alive(m.Binary)), len(h.runner.all()))
		}
	})
}
