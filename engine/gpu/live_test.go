package gpu_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/engine"
	"viiwork/engine/gpu"
)

func one(busy float64) []gpu.Card {
	return []gpu.Card{{Accel: engine.AccelCUDA, Reading: gpu.Reading{Busy: &busy}}}
}

func TestReadingsAreKeptFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		live := gpu.NewLive(gpu.LiveConfig{Read: func(context.Context, []gpu.Card) ([]gpu.Card, []gpu.Fault) {
			looks.Add(1)
			return one(float64(looks.Load())), []gpu.Fault{{ID: "x"}}
		}})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- live.Run(ctx) }()
		time.Sleep(time.Minute)
		if looks.Load() != 0 {
			t.Errorf("%d looks at no card", looks.Load())
		}
		live.Watch(one(0))
		synctest.Wait()
		if got := live.Cards(); len(got) != 1 || *got[0].Reading.Busy != 1 || len(live.Faults()) != 1 {
			t.Errorf("after the first look: %+v, %v", got, live.Faults())
		}
		time.Sleep(time.Minute)
		if n := looks.Load(); n < 12 || n > 14 {
			t.Errorf("%d looks in a minute", n)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestADriverThatHangsIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		free := make(chan struct{})
		live := gpu.NewLive(gpu.LiveConfig{Read: func(_ context.Context, cards []gpu.Card) ([]gpu.Card, []gpu.Fault) {
			looks.Add(1)
			<-free // and does not mind its context
			return cards, nil
		}})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- live.Run(ctx) }()
		live.Watch(one(0.5))
		time.Sleep(10 * time.Second)
		if got := live.Cards(); got[0].Reading.Busy == nil {
			t.Error("a reading was dropped at the first late look")
		}
		time.Sleep(time.Minute)
		if got := live.Cards(); looks.Load() != 1 || len(got) != 1 || got[0].Reading.Busy != nil {
			t.Errorf("%d looks; a minute later the reading is %+v", looks.Load(), got)
		}
		stop()
		if err := <-ended; err != nil { // it ends all the same
			t.Error(err)
		}
		close(free)
	})
}

func TestALookAtOlderCardsIsThrownAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		live := gpu.NewLive(gpu.LiveConfig{Read: func(_ context.Context, cards []gpu.Card) ([]gpu.Card, []gpu.Fault) {
			<-free
			return cards, nil
		}})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go live.Run(ctx)
		live.Watch(one(0.5))
		synctest.Wait()
		live.Watch(nil)
		close(free)
		synctest.Wait()
		if got := live.Cards(); len(got) != 0 {
			t.Errorf("cards of before the change: %+v", got)
		}
	})
}

func TestAProgramThatHangsIsEnded(t *testing.T) {
	root := tree(t, nil)
	if err := os.MkdirAll(filepath.Join(root, "usr/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "usr/bin/nvidia-smi"), []byte("#!/bin/sh\necho begun\nsleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	run := gpu.RunUnder(root)
	if _, err := run(ctx, "nvidia-smi"); err == nil {
		t.Error("a program that was killed ended well")
	}
	if _, err := run(t.Context(), "rocm-smi"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("a program that is not there: %v", err)
	}
}
