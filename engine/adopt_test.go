package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"viiwork/engine"
)

func TestRestartedNodeAdoptsItsEngine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		m := h.model("org/m", 2, 1)
		h.run(m)
		pass(5 * time.Second)
		before := h.runner.all()
		h.remake()
		h.run(m)
		pass(5 * time.Second)
		after := h.runner.all()
		if len(after) != 2 || !after[0].alive() || !after[1].alive() {
			t.Fatalf("%d processes after the restart, want the same 2 alive", len(after))
		}
		b := h.want("org/m#0", engine.StateReady)
		if !b.Adopted || b.Restarts != 0 {
			t.Errorf("adopted %v, %d restarts", b.Adopted, b.Restarts)
		}
		for _, p := range before {
			if len(p.fake.keys) != 1 {
				t.Errorf("the engine saw %d keys, want the one it was started with", len(p.fake.keys))
			}
			for key := range p.fake.keys {
				if len(key) != 64 {
					t.Errorf("key has %d characters", len(key))
				}
			}
		}
		files, _ := filepath.Glob(filepath.Join(h.cfg.StateDir, "engines", "*.key"))
		if len(files) != 2 {
			t.Fatalf("%d key files, want 2", len(files))
		}
		for _, f := range files {
			if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("key file: %v %v, want 0600", info.Mode(), err)
			}
		}
	})
}

func TestEngineStartedOtherwiseIsReplaced(t *testing.T) {
	for name, change := range map[string]func(*house, *engine.Model){
		"flags": func(h *house, m *engine.Model) { m.Args = []string{"--x"} },
		"env":   func(h *house, m *engine.Model) { m.Env = map[string]string{"A": "b"} },
		"model file": func(h *house, m *engine.Model) {
			if err := os.WriteFile(m.Path, []byte("another model"), 0o600); err != nil {
				h.t.Fatal(err)
			}
		},
		"lost key": func(h *house, m *engine.Model) {
			files, _ := filepath.Glob(filepath.Join(h.cfg.StateDir, "engines", "*.key"))
			for _, f := range files {
				os.Remove(f)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				h := newHouse(t)
				m := h.model("m", 1, 1)
				h.run(m)
				pass(2 * time.Second)
				h.stop()
				change(h, &m)
				h.remake()
				h.run(m)
				pass(2 * time.Second)
				all := h.runner.all()
				if len(all) != 2 || !all[0].wasStopped() || !all[1].alive() {
					t.Fatalf("%d processes, want the first stopped and a second", len(all))
				}
				if b := h.want("m#0", engine.StateReady); b.Adopted {
					t.Error("the new process counts as adopted")
				}
			})
		})
	}
}

func TestEngineNoLongerWantedIsStopped(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		keep := h.model("keep", 1, 1)
		h.run(keep, h.model("gone", 1, 1))
		pass(5 * time.Second)
		h.remake()
		h.run(keep)
		pass(5 * time.Second)
		if p := h.runner.of("gone#0")[0]; !p.wasStopped() {
			t.Error("the engine of a removed model runs on")
		}
		if p := h.runner.of("keep#0")[0]; !p.alive() {
			t.Error("a wanted engine was stopped")
		}
		files, _ := filepath.Glob(filepath.Join(h.cfg.StateDir, "*", "gone*"))
		if len(files) != 0 {
			t.Errorf("left behind: %v", files)
		}
	})
}

func TestOneProcessPerBackendIsAdopted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		docker := &fakeRunner{t: t, dialect: h.dialect, n: 100}
		h.cfg.Runners[engine.RunnerDocker] = docker
		h.remake()
		m, moved := h.model("m", 1, 1), h.model("moved", 1, 1)
		h.run(m, moved)
		pass(5 * time.Second)
		h.stop()
		twin := &fakeProcess{rec: h.runner.of("m#0")[0].rec, ended: make(chan struct{}), fake: &fakeEngine{progress: -1}}
		twin.rec.ID = "pid 77"
		h.runner.procs = append(h.runner.procs, twin)
		moved.Runner = engine.RunnerDocker
		h.remake()
		h.run(m, moved)
		pass(5 * time.Second)
		if first := h.runner.of("m#0")[0]; first.alive() == twin.alive() {
			t.Errorf("first alive %v, twin alive %v: want one of them", first.alive(), twin.alive())
		}
		if !h.runner.of("moved#0")[0].wasStopped() || len(docker.all()) != 1 {
			t.Error("the process of the runner before runs on, or none was started with the new one")
		}
		h.want("moved#0", engine.StateReady)
	})
}

func TestStopEnginesStopsThem(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.run(h.model("m", 1, 1))
		pass(2 * time.Second)
		h.StopEngines(true)
		h.stop()
		if !h.runner.all()[0].wasStopped() {
			t.Error("the engine runs on")
		}
	})
}

func TestRunnerThatCannotFindBlocksOnlyItsOwnModels(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		docker := &fakeRunner{t: t, dialect: h.dialect, findErr: errors.New("Docker is not running: start it"), n: 100}
		h.cfg.Runners[engine.RunnerDocker] = docker
		h.remake()
		m := h.model("boxed", 1, 1)
		m.Runner, m.Image = engine.RunnerDocker, "cpu"
		h.run(m, h.model("plain", 1, 1))
		pass(time.Minute)
		h.want("plain#0", engine.StateReady)
		if b := h.want("boxed#0", engine.StateStarting); !strings.Contains(b.Err, "Docker is not running") {
			t.Errorf("boxed says %q", b.Err)
		}
		docker.mu.Lock()
		docker.findErr = nil
		docker.mu.Unlock()
		pass(10 * time.Second)
		if b := h.want("boxed#0", engine.StateReady); b.Err != "" {
			t.Errorf("ready, yet says %q", b.Err)
		}
	})
}

// A request of a client of the node before may still run on an adopted engine.
func TestAdoptedEngineKeepsBusySlotsUntilItLetsGo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		m := h.model("m", 1, 2)
		h.run(m)
		pass(2 * time.Second)
		f := h.runner.all()[0].fake
		f.set(func(f *fakeEngine) { f.slots = busySlots(1, 2) })
		h.remake()
		h.run(m)
		pass(4 * time.Second)
		l := h.acquire(engine.Request{Model: "m"})
		if _, err := h.Acquire(t.Context(), engine.Request{Model: "m", NoWait: true}); !errors.Is(err, engine.ErrFull) {
			t.Fatalf("second seat: %v, want ErrFull while the engine works on", err)
		}
		f.set(func(f *fakeEngine) { f.slots = busySlots(0, 2) })
		pass(3 * time.Second)
		h.acquire(engine.Request{Model: "m", NoWait: true}).Release()
		l.Release()
	})
}
