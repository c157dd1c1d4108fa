package engine_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/engine"
)

type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func TestLogsOfSeveralBackendsAreTold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.runner.made = func(p *fakeProcess) { p.log = "one\ntwo" }
		ext, _ := h.external("away", 1)
		h.run(h.model("m", 2, 1), h.model("single", 1, 1), ext)
		pass(5 * time.Second)
		var out bytes.Buffer
		if err := h.Logs(t.Context(), &out, engine.LogRequest{Models: []string{"m"}, Tail: -1}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"m#0: one\n", "m#0: two\n", "m#1: one\n", "m#1: two\n"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("log is %q, want %q in it", out.String(), want)
			}
		}
		out.Reset()
		if err := h.Logs(t.Context(), &out, engine.LogRequest{Models: []string{"single"}, Tail: -1}); err != nil || out.String() != "one\ntwo\n" {
			t.Errorf("log of a single backend is %q, %v", out.String(), err)
		}
		out.Reset()
		err := h.Logs(t.Context(), &out, engine.LogRequest{Models: []string{"single", "away", "none"}, Tail: 1})
		if out.String() != "one\ntwo\n" || !errors.Is(err, engine.ErrUnknownModel) || !strings.Contains(err.Error(), "did not start away") {
			t.Errorf("of three models one of which has a log: %q, %v", out.String(), err)
		}
		out.Reset()
		err = h.Logs(t.Context(), &out, engine.LogRequest{Models: []string{"single", "m"}, Tail: -1})
		if err != nil || strings.Count(out.String(), "single#0: ") != 2 || strings.Count(out.String(), "m#1: ") != 2 {
			t.Errorf("of two models: %q, %v", out.String(), err)
		}
		if err := h.Logs(t.Context(), &out, engine.LogRequest{Models: []string{"none"}, Tail: -1}); !errors.Is(err, engine.ErrUnknownModel) {
			t.Errorf("unknown model: %v", err)
		}
		if err := h.Logs(t.Context(), &out, engine.LogRequest{Models: []string{"away"}, Tail: -1}); err == nil || !strings.Contains(err.Error(), "look at the log of that server") {
			t.Errorf("external: %v", err)
		}
	})
}

func TestLogOfOneEndlessLineIsPassedOnInPieces(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.runner.made = func(p *fakeProcess) { p.log = strings.Repeat("x", 1<<20) }
		h.run(h.model("m", 1, 1))
		pass(2 * time.Second)
		var out bytes.Buffer
		if err := h.Logs(t.Context(), &out, engine.LogRequest{Models: []string{"m"}, Tail: -1}); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) < 2 || strings.Count(out.String(), "x") != 1<<20 {
			t.Errorf("%d lines with %d characters, want all in pieces", len(lines), strings.Count(out.String(), "x"))
		}
	})
}

func TestFollowedLogsOutliveARestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.runner.made = func(p *fakeProcess) { p.log = "from " + p.rec.ID + "\n" }
		h.run(h.model("m", 1, 1))
		pass(2 * time.Second)
		var out syncBuffer
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Logs(ctx, &out, engine.LogRequest{Models: []string{"m"}, Tail: 10, Follow: true}) }()
		pass(time.Second)
		h.runner.all()[0].die("exit status 1")
		pass(5 * time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if out.String() != "from pid 1\nfrom pid 2\n" {
			t.Errorf("followed %q", out.String())
		}
	})
}
