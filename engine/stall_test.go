package engine_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"viiwork/engine"
)

// A request left over from the node before keeps a slot; that stands in for any request here, on fake time.
func leftOver(h *house, m engine.Model, slots func() ([]engine.SlotState, error)) *fakeProcess {
	h.run(m)
	pass(2 * time.Second)
	p := h.runner.all()[0]
	p.fake.set(func(f *fakeEngine) { f.slots = slots })
	h.remake()
	h.run(m)
	return p
}

func TestProgressInPrefillIsNotSilence(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		var work atomic.Int64
		var stuck atomic.Bool
		p := leftOver(h, h.model("m", 1, 1), func() ([]engine.SlotState, error) {
			if !stuck.Load() {
				work.Add(512)
			}
			return []engine.SlotState{{Processing: true, Work: int(work.Load())}}, nil
		})
		pass(10 * time.Minute)
		if !p.alive() {
			t.Fatal("an engine in a long prefill was restarted")
		}
		stuck.Store(true)
		pass(115 * time.Second)
		if !p.alive() {
			t.Fatal("restarted before the stall time was over")
		}
		pass(20 * time.Second)
		if !p.wasStopped() {
			t.Fatal("an engine without progress for 120 s runs on")
		}
		if b := h.state("m#0"); b.Restarts != 1 && !strings.Contains(b.Err, "silent") {
			t.Errorf("%d restarts, %q", b.Restarts, b.Err)
		}
		asks := p.fake.asks()
		for i := 1; i < len(asks); i++ {
			if gap := asks[i].Sub(asks[i-1]); gap < 2*time.Second {
				t.Fatalf("asked for its slots again after %s", gap)
			}
		}
	})
}

// TestEngineThatItsRunnerLosesSightOfServesOn, as when Docker is started anew; that it ends is seen afterwards all the same.
func TestEngineThatItsRunnerLosesSightOfServesOn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.runner.made = func(p *fakeProcess) { p.lost = make(chan error) }
		m := h.model("m", 1, 1)
		h.run(m)
		pass(5 * time.Second)
		p := h.runner.all()[0]
		for range 3 {
			p.lost <- errors.New("cannot connect to the Docker daemon")
		}
		pass(30 * time.Second)
		if b := h.want("m#0", engine.StateReady); !p.alive() || b.Restarts != 0 {
			t.Fatalf("it was ended: %+v", b)
		}
		p.die("killed by SIGKILL")
		pass(30 * time.Second)
		if h.want("m#0", engine.StateReady); len(h.runner.all()) != 2 {
			t.Errorf("%d processes in all", len(h.runner.all()))
		}
	})
}

// TestEngineThatCannotBeStoppedIsTriedAgain: it would keep its memory for ever.
func TestEngineThatCannotBeStoppedIsTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.run(h.model("m", 1, 1))
		pass(5 * time.Second)
		p := h.runner.all()[0]
		p.mu.Lock()
		p.stays = 1
		p.mu.Unlock()
		h.Apply(nil)
		pass(time.Minute)
		if !p.wasStopped() {
			t.Error("it runs on, and nothing knows of it")
		}
	})
}

func TestIdleEngineIsNeverSilent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.run(h.model("m", 1, 1))
		pass(time.Hour)
		b := h.want("m#0", engine.StateReady)
		if b.Restarts != 0 {
			t.Errorf("%d restarts of an idle engine", b.Restarts)
		}
		if n := len(h.runner.all()[0].fake.asks()); n > 1 {
			t.Errorf("an idle engine was asked for its slots %d times", n)
		}
	})
}

func TestThreeMissedChecksRespawn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.run(h.model("m", 1, 1), h.model("other", 1, 1))
		pass(3 * time.Second)
		p := h.runner.of("m#0")[0]
		p.fake.set(func(f *fakeEngine) { f.checkErr = errors.New("timeout") })
		pass(11 * time.Second)
		if !p.alive() {
			t.Fatal("given up after two missed checks")
		}
		pass(5 * time.Second)
		if !p.wasStopped() {
			t.Fatal("still there after three missed checks")
		}
		pass(3 * time.Second)
		h.want("m#0", engine.StateReady)
		if n := len(h.runner.of("other#0")); n != 1 {
			t.Errorf("the other model was started %d times", n)
		}
	})
}

func TestAFailingModelLeavesTheOthersServing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.run(h.model("bad", 1, 1), h.model("good", 1, 1))
		pass(3 * time.Second)
		for range 50 {
			if all := h.runner.of("bad#0"); all[len(all)-1].alive() {
				all[len(all)-1].die("exit status 1")
			}
			l := h.acquire(engine.Request{Model: "good", NoWait: true})
			pass(3 * time.Second)
			l.Release()
		}
		if n := len(h.runner.of("good#0")); n != 1 {
			t.Errorf("the good model was started %d times", n)
		}
	})
}

func TestTokensAreKnownOnlyOfAnIdleEngine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.runner.made = func(p *fakeProcess) {
			p.fake.slots = func() ([]engine.SlotState, error) {
				return []engine.SlotState{{ID: 0, Tokens: 100}, {ID: 1, Tokens: 7}}, nil
			}
		}
		h.run(h.model("m", 1, 2))
		pass(5 * time.Second)
		if s := h.state("m#0").Slots; s[0].Tokens != 100 || s[1].Tokens != 7 {
			t.Errorf("idle slots %+v", s)
		}
		l := h.acquire(engine.Request{Model: "m"})
		if s := h.state("m#0").Slots; s[0].Tokens != -1 || s[1].Tokens != -1 {
			t.Errorf("slots while a request runs somewhere: %+v", s)
		}
		l.Release()
	})
}
