package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"viiwork/engine"
)

func TestReadyOnlyAfterARealAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.runner.loads = 3 * time.Second
		h.runner.made = func(p *fakeProcess) {
			p.fake.proveErr = errors.New("hangs")
			p.fake.props = engine.Props{Context: 2048, Slots: 1}
			p.log = "half\n"
		}
		h.run(h.model("org/m", 1, 2))
		pass(1500 * time.Millisecond)
		if b := h.want("org/m#0", engine.StateLoading); b.Progress != 0.5 || b.Build != "build 1" || b.Process != "pid 1" {
			t.Errorf("while loading: %+v", b)
		}
		pass(10 * time.Second)
		h.want("org/m#0", engine.StateLoading)
		if _, err := h.Acquire(t.Context(), engine.Request{Model: "org/m"}); !errors.Is(err, engine.ErrNotReady) {
			t.Errorf("before it is proved: %v, want ErrNotReady", err)
		}
		h.runner.all()[0].fake.set(func(f *fakeEngine) { f.proveErr = nil })
		pass(2 * time.Second)
		b := h.want("org/m#0", engine.StateReady)
		if len(b.Slots) != 1 || b.Context != 2048 || b.ReadySince.IsZero() || b.Err != "" {
			t.Errorf("ready: %+v, want the engine's one slot of 2048", b)
		}
		l := h.acquire(engine.Request{Model: "org/m"})
		if l.Context() != 2048 || l.Backend() != "org/m#0" || l.Model() != "org/m" {
			t.Errorf("lease on %s of %s with %d tokens", l.Backend(), l.Model(), l.Context())
		}
		l.Release()
	})
}

func TestBackoffGrowsAndIsForgottenAfterAHealthyMinute(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.run(h.model("m", 1, 1))
		pass(time.Second)
		for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			h.want("m#0", engine.StateReady)
			all := h.runner.all()
			died := time.Now()
			all[len(all)-1].die("exit status 1")
			pass(100 * time.Millisecond)
			if b := h.want("m#0", engine.StateRestarting); !strings.Contains(b.Err, "exit status 1") {
				t.Errorf("reason is %q", b.Err)
			}
			pass(want*time.Second + 100*time.Millisecond)
			all = h.runner.all()
			if got := all[len(all)-1].started.Sub(died); got != want*time.Second {
				t.Errorf("restart %d came after %s, want %s", i, got, want*time.Second)
			}
		}
		pass(61 * time.Second)
		all := h.runner.all()
		died := time.Now()
		all[len(all)-1].die("exit status 1")
		pass(2 * time.Second)
		all = h.runner.all()
		if got := all[len(all)-1].started.Sub(died); got != time.Second {
			t.Errorf("after a healthy minute the restart came after %s, want 1s", got)
		}
		if got := h.state("m#0").Restarts; got != 9 {
			t.Errorf("%d restarts counted, want 9", got)
		}
	})
}

func TestStartupTimeoutRespawns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.runner.loads = time.Hour
		h.run(h.model("m", 1, 1))
		pass(59 * time.Second)
		h.want("m#0", engine.StateLoading)
		pass(1500 * time.Millisecond)
		if b := h.want("m#0", engine.StateRestarting); !strings.Contains(b.Err, "startup_timeout") {
			t.Errorf("reason is %q, want it to name startup_timeout", b.Err)
		}
		pass(2 * time.Second)
		if all := h.runner.all(); len(all) != 2 || !all[0].wasStopped() {
			t.Errorf("%d processes, want the slow one stopped and a second", len(all))
		}
	})
}

func TestUnknownFlagDoesNotCrashLoop(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.dialect.flags = func(o engine.Options) ([]string, error) {
			if len(o.Model.Args) > 0 {
				return nil, errors.New("unknown flag --nope: remove it from args")
			}
			return nil, nil
		}
		bad, good := h.model("bad", 1, 1), h.model("good", 1, 1)
		bad.Args = []string{"--nope"}
		h.run(bad, good)
		pass(10 * time.Minute)
		if b := h.want("bad#0", engine.StateFailed); !strings.Contains(b.Err, "unknown flag --nope") || b.Restarts != 0 {
			t.Errorf("failed with %q after %d restarts", b.Err, b.Restarts)
		}
		if n := len(h.runner.of("bad#0")); n != 0 {
			t.Errorf("the engine was started %d times with a flag it does not know", n)
		}
		h.want("good#0", engine.StateReady)
	})
}

func TestMissingModelFileIsTriedAgainWhenItAppears(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t, func(c *engine.Config) { c.Health.MaxRespawns = 2 })
		m := h.model("m", 1, 1)
		if err := os.Rename(m.Path, m.Path+".part"); err != nil {
			t.Fatal(err)
		}
		h.run(m)
		pass(time.Hour)
		if b := h.want("m#0", engine.StateFailed); !strings.Contains(b.Err, "is missing") {
			t.Errorf("reason is %q", b.Err)
		}
		if err := os.Rename(m.Path+".part", m.Path); err != nil {
			t.Fatal(err)
		}
		pass(31 * time.Second)
		h.want("m#0", engine.StateReady)
		h.runner.all()[0].die("exit status 1")
		pass(2 * time.Second)
		h.want("m#0", engine.StateReady) // looking for the file counted as no restart
	})
}

func TestEngineThatNeverComesUpFailsWithItsLastWords(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.runner.loads = time.Hour
		h.runner.made = func(p *fakeProcess) {
			p.log = strings.Repeat("noise\n", 100) + "\x1b[31merror: tensor is corrupt\x07\n"
			go func() {
				time.Sleep(500 * time.Millisecond)
				p.die("exit status 1")
			}()
		}
		h.run(h.model("m", 1, 1))
		pass(8 * time.Second)
		b := h.want("m#0", engine.StateFailed)
		if !strings.Contains(b.Err, "exit status 1") || !strings.Contains(b.Err, "error: tensor is corrupt") {
			t.Errorf("reason is %q, want exit status and last words", b.Err)
		}
		if strings.ContainsAny(b.Err, "\x1b\x07") || strings.Count(b.Err, "\n") > 20 {
			t.Errorf("last words are not bounded or hold control codes: %q", b.Err)
		}
		if n := len(h.runner.all()); n != 3 {
			t.Errorf("%d starts before it was called failed, want 3", n)
		}
		pass(10 * time.Minute)
		if n := len(h.runner.all()); n < 5 || n > 3+20 {
			t.Errorf("%d starts in ten minutes, want a few", n)
		}
	})
}

func TestMaxRespawnsGivesUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t, func(c *engine.Config) { c.Health.MaxRespawns = 2 })
		h.runner.failing = func(engine.Spec) error { return errors.New("no such card") }
		h.run(h.model("m", 1, 1))
		pass(time.Hour)
		b := h.want("m#0", engine.StateFailed)
		if b.Restarts != 2 || !strings.Contains(b.Err, "given up after 2 restarts") || !strings.Contains(b.Err, "no such card") {
			t.Errorf("%d restarts, %q; want 2 and the cause", b.Restarts, b.Err)
		}
	})
}

func TestLoadsAreSerialInTheOwnersOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.runner.loads = 10 * time.Second
		ext, _ := h.external("away", 1)
		h.run(h.model("a", 2, 1), ext, h.model("b", 1, 1))
		pass(500 * time.Millisecond)
		h.want("a#1", engine.StateStarting)
		h.want("b#0", engine.StateStarting)
		h.want("away#0", engine.StateReady)
		pass(40 * time.Second)
		all := h.runner.all()
		if len(all) != 3 {
			t.Fatalf("%d processes, want 3", len(all))
		}
		for i, want := range []string{"a#0", "a#1", "b#0"} {
			if all[i].rec.Backend != want {
				t.Errorf("process %d is %s, want %s", i, all[i].rec.Backend, want)
			}
			if i > 0 && all[i].started.Sub(all[i-1].started) < 10*time.Second {
				t.Errorf("%s started %s after the one before, which loads 10s", all[i].rec.Backend, all[i].started.Sub(all[i-1].started))
			}
		}
	})
}

func TestFailingLoadGivesWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.runner.loads = 5 * time.Second
		h.runner.failing = func(s engine.Spec) error {
			if s.Backend == "a#0" {
				return errors.New("no such card")
			}
			return nil
		}
		h.run(h.model("a", 1, 1), h.model("b", 1, 1), h.model("c", 1, 1))
		pass(20 * time.Second)
		h.want("b#0", engine.StateReady)
		h.want("c#0", engine.StateReady)
		if b := h.state("a#0"); b.State == engine.StateReady || !strings.Contains(b.Err, "no such card") {
			t.Errorf("a is %s: %q", b.State, b.Err)
		}
	})
}

func TestEngineThatLoadsForEverDoesNotKeepTheOthersOut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.runner.loads = 5 * time.Second
		h.runner.made = func(p *fakeProcess) {
			if p.rec.Backend == "a#0" {
				p.fake.ready = time.Now().Add(time.Hour)
			}
		}
		h.run(h.model("a", 1, 1), h.model("b", 1, 1), h.model("c", 1, 1))
		pass(75 * time.Second) // a's minute, then b's and c's 5 s
		h.want("b#0", engine.StateReady)
		h.want("c#0", engine.StateReady)
	})
}

func TestThreadsAreSharedOverAModelsBackends(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		m := h.model("m", 3, 1)
		own := h.model("own", 1, 1)
		own.Threads = 7
		h.run(m, own)
		pass(10 * time.Second)
		share := max(1, runtime.NumCPU()/3)
		if got := slices.Compact(slices.Sorted(slices.Values(h.dialect.threads))); !slices.Equal(got, slices.Compact([]int{min(share, 7), max(share, 7)})) {
			t.Errorf("threads %v, want %d for each of three and the owner's 7", got, share)
		}
	})
}

func TestMisplacedEngineIsRestartedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		where := engine.PlacementWrong
		h := newHouse(t, func(c *engine.Config) {
			c.Placed = func(ctx context.Context, pids, gpus []int, a engine.Accel) engine.Placement { return where }
		})
		m := h.model("m", 1, 1)
		m.Accel, m.Backends[0].GPUs = engine.AccelCUDA, []int{3}
		h.run(m)
		pass(10 * time.Minute)
		b := h.want("m#0", engine.StateReady)
		if b.Restarts != 1 || !strings.Contains(b.Err, "other cards") {
			t.Errorf("%d restarts, %q; want one and the reason", b.Restarts, b.Err)
		}
	})
}

func TestUnknownPlacementIsNoFault(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t, func(c *engine.Config) {
			c.Placed = func(context.Context, []int, []int, engine.Accel) engine.Placement { return engine.PlacementUnknown }
		})
		m := h.model("m", 1, 1)
		m.Accel, m.Backends[0].GPUs = engine.AccelROCm, []int{0}
		h.run(m)
		pass(10 * time.Minute)
		if b := h.want("m#0", engine.StateReady); b.Restarts != 0 || b.Err != "" {
			t.Errorf("%d restarts, %q", b.Restarts, b.Err)
		}
	})
}

// The owner reads in the log that a server of theirs is away: once for each time it goes, not at every visit.
func TestExternalThatIsAwayIsToldOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var log strings.Builder
		h := newHouse(t, func(c *engine.Config) {
			c.Runners, c.StateDir = nil, ""
			c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		})
		m, f := h.external("away", 2)
		f.checkErr = errors.New("connection refused")
		h.run(m)
		pass(time.Minute)
		f.set(func(f *fakeEngine) { f.checkErr = nil })
		pass(6 * time.Second)
		h.want("away#0", engine.StateReady)
		h.stop()
		if n := strings.Count(log.String(), "connection refused"); n != 1 || !strings.Contains(log.String(), "away#0") {
			t.Errorf("told %d times:\n%s", n, log.String())
		}
	})
}

func TestExternalComesBackByItself(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t, func(c *engine.Config) { c.Runners, c.StateDir = nil, "" })
		m, f := h.external("away", 2)
		f.checkErr = errors.New("connection refused")
		h.run(m)
		pass(time.Minute)
		if b := h.state("away#0"); b.State == engine.StateReady || !strings.Contains(b.Err, "connection refused") {
			t.Fatalf("%s: %q", b.State, b.Err)
		}
		f.set(func(f *fakeEngine) { f.checkErr = nil })
		pass(5 * time.Second)
		h.want("away#0", engine.StateReady)
		f.set(func(f *fakeEngine) { f.checkErr = errors.New("connection refused") })
		pass(30 * time.Second)
		if b := h.state("away#0"); b.State == engine.StateReady {
			t.Fatal("a dead server still counts as ready")
		}
		f.set(func(f *fakeEngine) { f.checkErr = nil })
		pass(6 * time.Second)
		if b := h.want("away#0", engine.StateReady); len(b.Slots) != 2 || b.Err != "" {
			t.Errorf("came back with %+v", b)
		}
		checks, _ := f.count()
		if checks > 60 {
			t.Errorf("%d health checks in 100 s", checks)
		}
	})
}
