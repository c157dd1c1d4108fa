package engine_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"viiwork/engine"
)

// roomy is a machine with room for anything.
func roomy(c *engine.Config) {
	c.Room = func(context.Context, engine.Model, []int) error { return nil }
}

// newProgram is m with another program.
func newProgram(m engine.Model) engine.Model {
	m.Binary += "-new"
	return m
}

// alive lists the living processes of a program.
func (h *house) alive(binary string) (all []*fakeProcess) {
	for _, p := range h.runner.all() {
		if p.alive() && p.spec.Model.Binary == binary {
			all = append(all, p)
		}
	}
	return all
}

// takesNewRequests fails when one is refused.
func (h *house) takesNewRequests(model string) string {
	h.t.Helper()
	l, err := h.Acquire(context.Background(), engine.Request{Model: model, NoWait: true})
	if err != nil {
		h.t.Fatalf("refused: %v", err)
	}
	defer l.Release()
	return l.Backend()
}

// TestNewEngineIsReadyBeforeTheOldGoes: at each moment one that is ready serves, who holds a lease finishes, and who waits
// keeps his place in the line.
func TestNewEngineIsReadyBeforeTheOldGoes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t, roomy)
		m := h.model("m", 1, 2)
		h.run(m)
		pass(2 * time.Second)
		h.runner.loads = 20 * time.Second
		long := h.acquire(engine.Request{Model: "m"})
		next := newProgram(m)
		h.Apply([]engine.Model{next})
		for range 100 {
			pass(100 * time.Millisecond)
			h.takesNewRequests("m")
			h.want("m#0", engine.StateReady)
		}
		if c := h.state("m#0").Change; c == nil || c.State != engine.StateLoading {
			t.Fatalf("while it loads: %+v", c)
		}
		if !h.runner.of("m#0")[0].alive() || len(h.runner.of("m#0b")) != 1 {
			t.Fatal("the two are not side by side")
		}
		second := h.acquire(engine.Request{Model: "m"})
		waits := make(chan *engine.Lease, 1)
		go func() {
			l, _ := h.Acquire(context.Background(), engine.Request{Model: "m"})
			waits <- l
		}()
		pass(15 * time.Second)
		waiter := <-waits
		if waiter == nil {
			t.Fatal("who waited was sent away")
		}
		if !long.Replaced() || waiter.Replaced() {
			t.Errorf("replaced: %v %v", long.Replaced(), waiter.Replaced())
		}
		if c := h.state("m#0").Change; c == nil || c.State != engine.StateDraining {
			t.Errorf("while the old one drains: %+v", c)
		}
		pass(5 * time.Minute) // nobody waits for its end
		if !h.runner.of("m#0")[0].alive() {
			t.Fatal("the old one was ended while a request ran")
		}
		long.Release()
		second.Release()
		pass(time.Second)
		if old := h.runner.of("m#0")[0]; !old.wasStopped() || len(h.alive(next.Binary)) != 1 {
			t.Fatal("the old one runs on, or the new one does not")
		}
		b := h.want("m#0", engine.StateReady)
		if b.Change != nil || len(b.Slots) != 2 || b.Process != h.runner.of("m#0b")[0].rec.ID {
			t.Errorf("at last %+v", b)
		}
		waiter.Release()
		left, _ := filepath.Glob(filepath.Join(h.cfg.StateDir, "*", engine.SafeName("m#0")+"*"))
		if len(left) != 0 {
			t.Errorf("left of the old one: %v", left)
		}
	})
}

// TestBackendsChangeOneAfterTheOther, so that there is never more than one engine beyond what was planned.
func TestBackendsChangeOneAfterTheOther(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t, roomy)
		m, n := h.model("m", 3, 1), h.model("n", 2, 1)
		h.run(m, n)
		pass(5 * time.Second)
		h.runner.loads = 10 * time.Second
		h.Apply([]engine.Model{newProgram(m), newProgram(n)})
		for range 1000 {
			pass(100 * time.Millisecond)
			living := 0
			for _, p := range h.runner.all() {
				if p.alive() {
					living++
				}
			}
			if living > 6 || living < 5 {
				t.Fatalf("%d engines", living)
			}
			h.takesNewRequests("m")
			h.takesNewRequests("n")
		}
		if len(h.alive("llama-server-new")) != 5 || len(h.alive("llama-server")) != 0 {
			t.Error("not all have changed")
		}
		// And back: each takes the berth that the other has left.
		h.Apply([]engine.Model{m, n})
		pass(2 * time.Minute)
		if len(h.alive("llama-server-new")) != 0 || len(h.alive("llama-server")) != 5 || len(h.runner.of("m#0")) != 2 {
			t.Error("not all have changed back")
		}
	})
}

// TestNewEngineThatDoesNotComeUpIsRemoved, whatever is wrong with it, and the old one serves on; another word of the owner's
// tries again.
func TestNewEngineThatDoesNotComeUpIsRemoved(t *testing.T) {
	for name, spoil := range map[string]func(*house){
		"does not start": func(h *house) { h.runner.failing = func(engine.Spec) error { return errors.New("no such image") } },
		"dies": func(h *house) {
			h.runner.loads = 10 * time.Second
			h.runner.made = func(p *fakeProcess) {
				time.AfterFunc(3*time.Second, func() { p.die("killed by SIGKILL") })
			}
		},
		"never loads": func(h *house) { h.runner.loads = time.Hour },
		"answers wrong": func(h *house) {
			h.runner.made = func(p *fakeProcess) { p.fake.proveErr = errors.New("gibberish") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				h := newHouse(t, roomy)
				m := h.model("m", 2, 1)
				h.run(m)
				pass(5 * time.Second)
				held := h.acquire(engine.Request{Model: "m"})
				h.runner.mu.Lock()
				spoil(h)
				h.runner.mu.Unlock()
				h.Apply([]engine.Model{newProgram(m)})
				for range 300 {
					pass(time.Second)
					h.takesNewRequests("m")
				}
				for _, id := range []string{"m#0", "m#1"} {
					b := h.want(id, engine.StateReady)
					if b.Change == nil || b.Change.State != engine.StateFailed || b.Change.Err == "" || b.Restarts != 0 {
						t.Errorf("%s: %+v %+v", id, b, b.Change)
					}
				}
				if len(h.alive("llama-server")) != 2 || len(h.alive("llama-server-new")) != 0 {
					t.Fatal("not the old ones alone are left")
				}
				held.Release()
				if left, _ := filepath.Glob(filepath.Join(h.cfg.StateDir, "*", engine.SafeName("m#0b")+"*")); len(left) != 0 {
					t.Errorf("left behind: %v", left)
				}
				h.runner.mu.Lock()
				h.runner.failing, h.runner.made, h.runner.loads = nil, nil, 0
				h.runner.mu.Unlock()
				h.Apply([]engine.Model{newProgram(m)})
				pass(time.Minute)
				if b := h.want("m#1", engine.StateReady); b.Change != nil || len(h.alive("llama-server-new")) != 2 {
					t.Errorf("the second try: %+v", b.Change)
				}
			})
		})
	}
}

// TestWithoutRoomTheOldEngineGoesFirst, one backend at a time; one that does not come up keeps the others as they are.
func TestWithoutRoomTheOldEngineGoesFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		m := h.model("m", 3, 1)
		h.run(m)
		pass(5 * time.Second)
		h.runner.loads = 10 * time.Second
		h.Apply([]engine.Model{newProgram(m)})
		for range 600 {
			pass(100 * time.Millisecond)
			h.takesNewRequests("m")
			if n := len(h.alive("llama-server")) + len(h.alive("llama-server-new")); n > 3 {
				t.Fatalf("%d engines where there is room for three", n)
			}
		}
		if len(h.alive("llama-server-new")) != 3 {
			t.Fatal("not all have changed")
		}
		h.runner.mu.Lock()
		h.runner.failing = func(s engine.Spec) error {
			if s.Model.Binary == "llama-server" {
				return errors.New("broken")
			}
			return nil
		}
		h.runner.mu.Unlock()
		h.Apply([]engine.Model{m})
		pass(4 * time.Minute)
		if len(h.alive("llama-server-new")) != 2 {
			t.Errorf("%d are left of those that serve, want 2", len(h.alive("llama-server-new")))
		}
		h.takesNewRequests("m")
		if c := h.state("m#2").Change; c == nil || c.State != engine.StateFailed || !strings.Contains(c.Err, "m#0") {
			t.Errorf("the third says %+v", c)
		}
		h.Apply([]engine.Model{newProgram(m)}) // its owner takes it back
		pass(2 * time.Minute)
		for _, b := range h.Snapshot()[0].Backends {
			if b.State != engine.StateReady || b.Change != nil {
				t.Errorf("after it was taken back %s is %s, %+v", b.ID, b.State, b.Change)
			}
		}
	})
}

// TestEngineThatDiesInTheMiddleOfAChange costs nothing but itself: the old one is started again and replaced all the same,
// the new one is started again once it has its place.
func TestEngineThatDiesInTheMiddleOfAChange(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t, roomy)
		m := h.model("m", 1, 1)
		h.run(m)
		pass(5 * time.Second)
		h.runner.loads = 20 * time.Second
		h.Apply([]engine.Model{newProgram(m)})
		pass(5 * time.Second)
		h.runner.of("m#0")[0].die("killed by SIGKILL")
		pass(30 * time.Second)
		h.want("m#0", engine.StateReady)
		if len(h.alive("llama-server")) != 0 || len(h.alive("llama-server-new")) != 1 {
			t.Fatalf("%d old and %d new ones", len(h.alive("llama-server")), len(h.alive("llama-server-new")))
		}
		h.alive("llama-server-new")[0].die("killed by SIGKILL")
		pass(30 * time.Second)
		h.want("m#0", engine.StateReady)
		if len(h.alive("llama-server-new")) != 1 || len(h.alive("llama-server")) != 0 {
			t.Error("the new one was not started again")
		}
	})
}

// TestNodeThatEndsInTheMiddleOfAChange leaves two engines of one backend: the next run keeps the one that is wanted and
// ends the other, whichever that is.
func TestNodeThatEndsInTheMiddleOfAChange(t *testing.T) {
	for name, wanted := range map[string]func(engine.Model) engine.Model{
		"the new one": newProgram,
		"the old one": func(m engine.Model) engine.Model { return m },
		"neither":     func(m engine.Model) engine.Model { m.Context = 8192; m.Args = []string{"--x"}; return m },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				h := newHouse(t, roomy)
				m := h.model("m", 1, 1)
				h.run(m)
				pass(5 * time.Second)
				h.runner.loads = 20 * time.Second
				h.Apply([]engine.Model{newProgram(m)})
				pass(5 * time.Second)
				before := h.runner.all()
				if len(before) != 2 {
					t.Fatal("not in the middle")
				}
				h.remake()
				h.run(wanted(m))
				pass(time.Minute)
				b := h.want("m#0", engine.StateReady)
				all := h.runner.all()
				living := slices.DeleteFunc(slices.Clone(all), func(p *fakeProcess) bool { return !p.alive() })
				if len(living) != 1 || living[0].rec.ID != b.Process {
					t.Fatalf("%d engines live", len(living))
				}
				if (name == "neither") == b.Adopted || b.Adopted && len(all) != 2 {
					t.Errorf("adopted %v, %d processes in all", b.Adopted, len(all))
				}
				if wanted(m).Binary != living[0].spec.Model.Binary {
					t.Error("it is not the wanted one")
				}
				h.takesNewRequests("m")
				keys, _ := filepath.Glob(filepath.Join(h.cfg.StateDir, "engines", "*.key"))
				if len(keys) != 1 {
					t.Errorf("keys %v", keys)
				}
				// And it changes as any other.
				h.runner.loads = 0
				last := wanted(m)
				last.Binary = "third"
				h.Apply([]engine.Model{last})
				pass(time.Minute)
				if len(h.alive("third")) != 1 || len(h.alive(wanted(m).Binary)) != 0 {
					t.Error("it does not change any more")
				}
			})
		})
	}
}

// TestAnotherChangeInTheMiddleOfOne takes the place of the first.
func TestAnotherChangeInTheMiddleOfOne(t *testing.T) {
	for name, then := range map[string]func(engine.Model) []engine.Model{
		"a third program": func(m engine.Model) []engine.Model { m.Binary = "third"; return []engine.Model{m} },
		"back":            func(m engine.Model) []engine.Model { return []engine.Model{m} },
		"settings":        func(m engine.Model) []engine.Model { m.Args = []string{"--x"}; return []engine.Model{newProgram(m)} },
		"removed":         func(engine.Model) []engine.Model { return nil },
	} {
		for _, after := range []time.Duration{0, 5 * time.Second, 21 * time.Second} {
			t.Run(name+" after "+after.String(), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					h := newHouse(t, roomy)
					m := h.model("m", 1, 1)
					h.run(m)
					pass(5 * time.Second)
					h.runner.loads = 20 * time.Second
					l := h.acquire(engine.Request{Model: "m"})
					h.Apply([]engine.Model{newProgram(m)})
					pass(after)
					last := then(m)
					h.Apply(last)
					pass(2 * time.Second)
					l.Release()
					pass(2 * time.Minute)
					var living []*fakeProcess
					for _, p := range h.runner.all() {
						if p.alive() {
							living = append(living, p)
						}
					}
					if len(living) != len(last) {
						t.Fatalf("%d engines live, want %d", len(living), len(last))
					}
					for i, p := range living {
						if p.spec.Model.Binary != last[i].Binary || !slices.Equal(p.spec.Model.Args, last[i].Args) {
							t.Errorf("runs %s %v", p.spec.Model.Binary, p.spec.Model.Args)
						}
						if b := h.want("m#0", engine.StateReady); b.Change != nil {
							t.Errorf("still %+v", b.Change)
						}
						h.takesNewRequests("m")
					}
				})
			})
		}
	}
}
