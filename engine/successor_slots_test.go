package engine_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/engine"
)

// TestChangedModelDoesNotWaitForALongGoodbye: what drains calmly beside its successor has half a minute once it is in the way.
func TestChangedModelDoesNotWaitForALongGoodbye(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t, roomy)
		m := h.model("m", 1, 1)
		h.run(m)
		pass(5 * time.Second)
		l := h.acquire(engine.Request{Model: "m"})
		defer l.Release()
		m = newProgram(m)
		h.Apply([]engine.Model{m})
		pass(2 * time.Minute)
		m.Args = []string{"--x"}
		h.Apply([]engine.Model{m})
		pass(40 * time.Second)
		h.want("m#0", engine.StateReady)
		h.takesNewRequests("m")
	})
}

// TestSlotsAreSavedBeforeASwitch where the new engine can read them, and only there.
func TestSlotsAreSavedBeforeASwitch(t *testing.T) {
	for build, want := range map[string]int{"b1": 1, "b2": 0} {
		t.Run(build, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var h *house
				saved := 0
				h = newHouse(t, roomy, func(c *engine.Config) {
					c.BeforeSwitch = func(ctx context.Context, backend string) {
						path, _, err := h.SaveSlot(ctx, backend, 0)
						if err != nil {
							t.Errorf("the slots of the old engine are not there: %v", err)
							return
						}
						if !strings.Contains(path, engine.SafeName("m#0")) {
							t.Errorf("saved to %s", path)
						}
						saved++
						os.Remove(path)
					}
				})
				h.runner.made = func(p *fakeProcess) { p.fake.props.Build = "b1" }
				m := h.model("m", 1, 1)
				h.run(m)
				pass(5 * time.Second)
				h.runner.mu.Lock()
				h.runner.made = func(p *fakeProcess) { p.fake.props.Build = build }
				h.runner.mu.Unlock()
				h.Apply([]engine.Model{newProgram(m)})
				pass(5 * time.Second)
				if saved != want || len(h.alive("llama-server-new")) != 1 {
					t.Errorf("saved %d times, want %d", saved, want)
				}
				// A file of the new engine is written where the new engine writes.
				path, _, err := h.SaveSlot(t.Context(), "m#0", 0)
				if err != nil || !strings.Contains(path, engine.SafeName("m#0b")) {
					t.Errorf("%s, %v", path, err)
				}
				if _, err := h.RestoreSlot(t.Context(), "m#0", 0, path); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestLogsGoOnWithTheNewEngine for who follows them.
func TestLogsGoOnWithTheNewEngine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t, roomy)
		h.runner.made = func(p *fakeProcess) { p.log = p.spec.Model.Binary + "\n" }
		m := h.model("m", 1, 1)
		h.run(m)
		pass(2 * time.Second)
		var seen lockedText
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Logs(ctx, &seen, engine.LogRequest{Models: []string{"m"}, Tail: -1, Follow: true}) }()
		pass(time.Second)
		h.Apply([]engine.Model{newProgram(m)})
		pass(5 * time.Second)
		if got := seen.String(); got != "llama-server\nllama-server-new\n" {
			t.Errorf("%q", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
