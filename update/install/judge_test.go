package install_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/update/install"
)

// played is a node that does what a test says, in a time that passes only when all wait.
type played struct {
	mu    sync.Mutex // guards all
	sight install.Sight
	fault error
	asked int
	mute  int // so many questions are not answered
	ended []syscall.Signal
}

func (p *played) Look(context.Context) (install.Sight, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sight, p.fault
}

func (p *played) Complete(context.Context, string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked++; p.asked <= p.mute {
		return errors.New("it is busy")
	}
	return nil
}

func (p *played) be(version string, pid, ready int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sight, p.fault = install.Sight{PID: pid, Version: version, Ready: map[string]int{"Qwen": ready}}, nil
}

func (p *played) fall(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = err
}

// kill ends it, and has the old version come up again after a second.
func (p *played) kill(_ int, sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sig == 0 {
		return nil
	}
	p.ended = append(p.ended, sig)
	p.fault = errors.New("it has ended")
	time.AfterFunc(time.Second, func() { p.be(oldVersion, 99, 1) })
	return nil
}

// trial installs a version on a played node that serves one model.
func (w *world) trial() (*played, install.JudgeConfig) {
	w.t.Helper()
	p := &played{}
	p.be(oldVersion, 1, 1)
	order := w.order()
	order.Patience = 15 * time.Minute
	order.Before = func(ctx context.Context) install.Before { return install.Observe(ctx, p, func(string) {}) }
	if err := w.open().Install(w.t.Context(), w.release(newVersion, script(newVersion, "good")), order); err != nil {
		w.t.Fatal(err)
	}
	p.asked = 0
	runs := w.open().Program(newVersion)
	return p, install.JudgeConfig{Node: p, Kill: p.kill, Exe: func(int) (string, error) { return runs, nil }}
}

// TestJudgeTakesItsTime holds a trial's course against when it ends and how.
func TestJudgeTakesItsTime(t *testing.T) {
	for name, c := range map[string]struct {
		play  func(*played)
		why   string // "" = it is good
		took  time.Duration
		takes bool // a person to start the old one again: no process is known to be ended
	}{
		"all well": {func(p *played) { p.be(newVersion, 2, 1) }, "", time.Minute, false},
		"drains long, loads long": {func(p *played) {
			time.Sleep(5 * time.Minute)
			p.fall(errors.New("it has ended"))
			time.Sleep(5 * time.Second)
			p.be(newVersion, 2, 0)
			time.Sleep(5 * time.Minute)
			p.be(newVersion, 2, 1)
		}, "", 11*time.Minute + 5*time.Second, false},
		"never starts":      {func(p *played) { p.fall(errors.New("nothing listens")) }, "after 15m0s the node does not answer: nothing listens", 15 * time.Minute, true},
		"old one stays":     {func(*played) {}, "after 15m0s the node of before still runs", 15 * time.Minute, false},
		"something else":    {func(p *played) { p.be("v1.0.0", 2, 1) }, "what runs is v1.0.0", 15 * time.Minute, true},
		"never as ready":    {func(p *played) { p.be(newVersion, 2, 0) }, "after 15m0s Qwen has 0 of 1 backends", 15 * time.Minute, false},
		"busy for a moment": {func(p *played) { p.mute = 2; p.be(newVersion, 2, 1) }, "", time.Minute + 6*time.Second, false},
		"does not answer":   {func(p *played) { p.mute = 1000; p.be(newVersion, 2, 1) }, "Qwen answered before and does not now: it is busy", 6 * time.Second, false},
		"crashes at 30 s":   {func(p *played) { p.be(newVersion, 2, 1); time.Sleep(30 * time.Second); p.be(newVersion, 3, 1) }, "it ended and was started again", 31 * time.Second, false},
		"falls silent":      {func(p *played) { p.be(newVersion, 2, 1); time.Sleep(30 * time.Second); p.fall(errors.New("reset")) }, "the node does not answer: reset", 33 * time.Second, false},
		"silent for a blink": {func(p *played) {
			p.be(newVersion, 2, 1)
			time.Sleep(30 * time.Second)
			p.fall(errors.New("late"))
			time.Sleep(time.Second)
			p.be(newVersion, 2, 1)
		}, "", time.Minute + time.Second, false},
		"loses a backend": {func(p *played) { p.be(newVersion, 2, 1); time.Sleep(30 * time.Second); p.be(newVersion, 2, 0) }, "Qwen has 0 of 1 backends", 2 * time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p, cfg := w.trial()
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				go c.play(p)
				if c.takes {
					time.AfterFunc(20*time.Minute, func() { p.be(oldVersion, 99, 1) }) // a person starts it
				}
				if err := w.open().Judge(context.Background(), cfg); err != nil {
					t.Fatal(err)
				}
				s := w.read()
				if s.Last == nil || s.Last.Good != (c.why == "") || !strings.Contains(s.Last.Why, c.why) || s.Last.Fault != "" {
					t.Fatalf("%+v", s.Last)
				}
				decided := s.Last.Time
				if len(s.Bad) > 0 {
					decided = s.Bad[0].Time
				}
				if took := decided.Sub(begun); took < c.took-time.Second || took > c.took+2*time.Second {
					t.Errorf("it took %v, want %v", took, c.took)
				}
			})
		})
	}
}

func TestNodeThatDoesNotEndIsKilled(t *testing.T) {
	w := newWorld(t)
	p, cfg := w.trial()
	synctest.Test(t, func(t *testing.T) {
		p.be(newVersion, 2, 0)
		cfg.Kill = func(pid int, sig syscall.Signal) error {
			if sig == syscall.SIGKILL {
				return p.kill(pid, sig)
			}
			return nil
		}
		cfg.Stop = 30 * time.Second
		if err := w.open().Judge(context.Background(), cfg); err != nil {
			t.Fatal(err)
		}
		if len(p.ended) != 1 || p.ended[0] != syscall.SIGKILL {
			t.Errorf("it was sent %v", p.ended)
		}
	})
}

func TestOldVersionThatDoesNotComeBackIsSaid(t *testing.T) {
	w := newWorld(t)
	p, cfg := w.trial()
	synctest.Test(t, func(t *testing.T) {
		p.be(newVersion, 2, 0)
		cfg.Kill = func(int, syscall.Signal) error {
			p.fall(errors.New("nothing listens"))
			return syscall.ESRCH
		}
		if err := w.open().Judge(context.Background(), cfg); err != nil {
			t.Fatal(err)
		}
	})
	if last := w.read().Last; last == nil || last.Good || !strings.Contains(last.Fault, "no node answers") {
		t.Fatalf("%+v", last)
	}
	w.wantLinks(oldVersion, oldVersion)
}

func TestManagerThatHasGivenUpIsToldToStartTheOldVersion(t *testing.T) {
	w := newWorld(t)
	p, cfg := w.trial()
	started := 0
	synctest.Test(t, func(t *testing.T) {
		p.fall(errors.New("nothing listens"))
		cfg.Revive = func(context.Context) error {
			started++
			time.AfterFunc(time.Second, func() { p.be(oldVersion, 99, 1) })
			return nil
		}
		if err := w.open().Judge(context.Background(), cfg); err != nil {
			t.Fatal(err)
		}
	})
	if last := w.read().Last; started != 1 || last == nil || last.Good || last.Fault != "" {
		t.Fatalf("it was started %d times: %+v", started, last)
	}
}

func TestSecondJudgeLeavesTheFirstAlone(t *testing.T) {
	w := newWorld(t)
	p, cfg := w.trial()
	release, err := w.open().Hold()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	p.be(newVersion, 2, 0)
	if err := w.open().Judge(t.Context(), cfg); err != nil || w.read().Trial == nil {
		t.Fatalf("%v", err)
	}
}

func TestNothingOnTrialIsNothingToJudge(t *testing.T) {
	w := newWorld(t)
	if err := w.open().Judge(t.Context(), install.JudgeConfig{Node: &played{}}); err != nil {
		t.Fatal(err)
	}
	if err := w.open().Stop("no"); !errors.Is(err, install.ErrRefused) {
		t.Fatalf("got %v", err)
	}
}

// TestFolderWithANameOfItsOwnIsKnownByWhatItsProgramSays is for what an owner put beside the releases.
func TestFolderWithANameOfItsOwnIsKnownByWhatItsProgramSays(t *testing.T) {
	w := newWorld(t)
	w.put("v1.2.2-mine", script("dev", "good"))
	w.link("previous", "v1.2.2-mine")
	p := &played{}
	p.be(oldVersion, 1, 1)
	order := w.order()
	order.Before = func(ctx context.Context) install.Before { return install.Observe(ctx, p, func(string) {}) }
	if err := w.open().Back(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		p.be("dev", 2, 1)
		if err := w.open().Judge(context.Background(), install.JudgeConfig{Node: p}); err != nil {
			t.Fatal(err)
		}
	})
	if last := w.read().Last; last == nil || !last.Good || last.Version != "v1.2.2-mine" {
		t.Fatalf("%+v", last)
	}
}

// TestFullDiskKeepsNoBadVersionThere: what is on trial may be what fills it. A good one loses nothing by it either.
func TestFullDiskKeepsNoBadVersionThere(t *testing.T) {
	for name, ready := range map[string]int{"bad": 0, "good": 1} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p, cfg := w.trial()
			blocked := filepath.Join(w.versions, ".new-state.json")
			if err := os.MkdirAll(filepath.Join(blocked, "x"), 0o700); err != nil { // no state can be written; links can
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				p.be(newVersion, 2, ready)
				if err := w.open().Judge(context.Background(), cfg); err == nil {
					t.Error("nobody is told that it could not be written")
				}
				if ready > 0 {
					w.wantLinks(newVersion, oldVersion)
					if len(p.ended) > 0 {
						t.Errorf("it was sent %v", p.ended)
					}
					return
				}
				w.wantLinks(oldVersion, oldVersion)
				if len(p.ended) != 1 || p.ended[0] != syscall.SIGTERM {
					t.Errorf("it was sent %v", p.ended)
				}
			})
			if err := os.RemoveAll(blocked); err != nil {
				t.Fatal(err)
			}
			if back := w.boot("1"); back != "" {
				t.Errorf("with room again it is sent back to %q", back)
			}
			if trial := w.read().Trial; (trial != nil) != (ready > 0) {
				t.Errorf("on trial is %+v", trial)
			}
		})
	}
}

// TestNobodyElseIsKilledUnderTheNumberOfANode: it ended, and the machine gave its number away before the old one came.
func TestNobodyElseIsKilledUnderTheNumberOfANode(t *testing.T) {
	w := newWorld(t)
	p, cfg := w.trial()
	synctest.Test(t, func(t *testing.T) {
		p.be(newVersion, 2, 0)
		var sent []syscall.Signal
		runs := cfg.Exe
		cfg.Exe = func(pid int) (string, error) {
			if len(sent) > 0 {
				return "/usr/bin/editor", nil
			}
			return runs(pid)
		}
		cfg.Kill = func(_ int, sig syscall.Signal) error {
			if sig == syscall.SIGTERM {
				p.fall(errors.New("it has ended"))
				time.AfterFunc(2*time.Minute, func() { p.be(oldVersion, 99, 1) })
			}
			if sig != 0 {
				sent = append(sent, sig)
			}
			return nil
		}
		if err := w.open().Judge(context.Background(), cfg); err != nil {
			t.Fatal(err)
		}
		if len(sent) != 1 || sent[0] != syscall.SIGTERM {
			t.Errorf("it was sent %v", sent)
		}
	})
}

// slowly is a node that takes its time to say how it is.
type slowly struct{ *played }

func (s slowly) Look(ctx context.Context) (install.Sight, error) {
	select {
	case <-time.After(7100 * time.Millisecond):
		return s.played.Look(ctx)
	case <-ctx.Done():
		return install.Sight{}, ctx.Err()
	}
}

// silentModel is one whose model takes questions and answers none.
type silentModel struct{ slowly }

func (silentModel) Complete(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }

// TestTheEndOfTheTimeHidesNoReason: it comes in the middle of a question, and what was seen before is the reason all the same.
func TestTheEndOfTheTimeHidesNoReason(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		ready   int
		silent  bool
		why     string
	}{
		"old one stays":  {oldVersion, 1, false, "after 15m0s the node of before still runs"},
		"never as ready": {newVersion, 0, false, "after 15m0s Qwen has 0 of 1 backends"},
		"mute":           {newVersion, 1, true, "after 1m0s Qwen answered before and does not now"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p, cfg := w.trial()
			cfg.Node = slowly{p}
			if c.silent {
				cfg.Node = silentModel{slowly{p}}
				if err := w.open().Change(func(s *install.State) { s.Trial.Patience = 60 }); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Test(t, func(t *testing.T) {
				pid := 2
				if c.version == oldVersion {
					pid = 1
				}
				p.be(c.version, pid, c.ready)
				if err := w.open().Judge(context.Background(), cfg); err != nil {
					t.Fatal(err)
				}
			})
			if s := w.read(); s.Last == nil || s.Last.Good || !strings.HasPrefix(s.Last.Why, c.why) || s.Last.Fault != "" {
				t.Errorf("%+v", s.Last)
			}
		})
	}
}
