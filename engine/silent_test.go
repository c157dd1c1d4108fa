package engine_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"viiwork/engine"
)

func TestSilentEngineIsRestartedAndItsRequestEnds(t *testing.T) {
	h := serving(t, false, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "data: x\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, func(c *engine.Config) {
		// On a busy machine the first bytes of the answer take their time too.
		c.Health = engine.HealthConfig{Interval: 50 * time.Millisecond, Stall: 2 * time.Second}
	})
	h.fake().set(func(f *fakeEngine) { f.slots = busySlots(1, 1) })
	l := h.acquire(engine.Request{Model: "m"})
	resp := h.do(l)
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, engine.ErrSilent) {
		t.Errorf("reading ended with %v, want ErrSilent", err)
	}
	if _, err := l.Do(post(t, t.Context(), "{}")); !errors.Is(err, engine.ErrSilent) {
		t.Errorf("another request on that lease: %v, want ErrSilent", err)
	}
	resp.Body.Close()
	l.Release()
	eventually(t, "a second process is ready", func() bool {
		return len(h.runner.all()) == 2 && h.state("m#0").State == engine.StateReady
	})
	if !h.runner.all()[0].wasStopped() {
		t.Error("the silent process was not stopped")
	}
}

func TestEngineThatStreamsIsBusyNotDead(t *testing.T) {
	left := make(chan struct{}, 1)
	h := serving(t, false, endless(left), func(c *engine.Config) { c.Health.Interval = 30 * time.Millisecond })
	f := h.fake()
	l := h.acquire(engine.Request{Model: "m"})
	resp := h.do(l)
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, resp.Body)
		read <- err
	}()
	checks, _ := f.count()
	f.set(func(f *fakeEngine) { f.checkErr = context.DeadlineExceeded })
	eventually(t, "ten missed checks", func() bool { n, _ := f.count(); return n > checks+10 })
	h.want("m#0", engine.StateBusy)
	f.set(func(f *fakeEngine) { f.checkErr = nil })
	eventually(t, "ready again", func() bool { return h.state("m#0").State == engine.StateReady })
	if len(h.runner.all()) != 1 {
		t.Error("a streaming engine was restarted")
	}
	l.Release()
	if err := <-read; err == nil {
		t.Error("a released answer ended like a complete one")
	}
	resp.Body.Close()
}

func TestEngineThatMissesChecksInALongPrefillIsBusyNotDead(t *testing.T) {
	begun, prefill := make(chan struct{}), make(chan struct{})
	h := serving(t, false, func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-prefill
		io.WriteString(w, "done")
	}, func(c *engine.Config) { c.Health.Interval = 30 * time.Millisecond })
	f := h.fake()
	l := h.acquire(engine.Request{Model: "m"})
	answered := make(chan string, 1)
	go func() {
		resp := h.do(l)
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		answered <- string(body)
	}()
	<-begun // an engine that owes nobody anything would be dead after three missed checks
	f.set(func(f *fakeEngine) { f.checkErr = context.DeadlineExceeded })
	eventually(t, "it is busy", func() bool { return h.state("m#0").State == engine.StateBusy })
	checks, _ := f.count()
	eventually(t, "ten missed checks", func() bool { n, _ := f.count(); return n > checks+10 })
	h.want("m#0", engine.StateBusy)
	close(prefill)
	if got := <-answered; got != "done" {
		t.Errorf("answer is %q", got)
	}
	l.Release()
	if len(h.runner.all()) != 1 {
		t.Error("an engine in a prefill was restarted")
	}
}

func TestClientThatDoesNotReadMakesNoEngineSilent(t *testing.T) {
	h := serving(t, false, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "all of it") },
		func(c *engine.Config) {
			c.Health = engine.HealthConfig{Interval: 30 * time.Millisecond, Stall: time.Second}
		})
	f := h.fake()
	l := h.acquire(engine.Request{Model: "m"})
	resp := h.do(l)
	checks, _ := f.count()
	eventually(t, "checks for longer than the stall time", func() bool { n, _ := f.count(); return n > checks+50 })
	if body, err := io.ReadAll(resp.Body); string(body) != "all of it" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	resp.Body.Close()
	l.Release()
	if len(h.runner.all()) != 1 {
		t.Error("the engine was restarted")
	}
}

// TestOldEngineThatFallsSilentEndsItsRequests: nobody would wait for it for as long as one that works may take.
func TestOldEngineThatFallsSilentEndsItsRequests(t *testing.T) {
	h := serving(t, false, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "data: x\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, roomy, func(c *engine.Config) {
		c.Health = engine.HealthConfig{Interval: 50 * time.Millisecond, Stall: 2 * time.Second}
	})
	old := h.runner.all()[0]
	old.fake.set(func(f *fakeEngine) { f.slots = busySlots(1, 1) })
	l := h.acquire(engine.Request{Model: "m"})
	resp := h.do(l)
	h.Apply([]engine.Model{newProgram(h.Snapshot()[0].Model)})
	eventually(t, "the new one serves", func() bool { return l.Replaced() })
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, engine.ErrSilent) {
		t.Errorf("reading ended with %v, want ErrSilent", err)
	}
	resp.Body.Close()
	l.Release()
	eventually(t, "the old one has ended", old.wasStopped)
	h.want("m#0", engine.StateReady)
}
