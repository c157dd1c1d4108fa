package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"viiwork/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// These tests talk HTTP and so run on real time; what they wait for has no upper limit but the test's own.

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never came: %s", what)
		}
	}
}

// engineAt serves handler, which finds the body read: a server of net/http sees its client leave only after that.
func engineAt(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv
}

// serving runs a house with one model on a real HTTP server, managed unless external.
func serving(t *testing.T, external bool, handler http.HandlerFunc, change ...func(*engine.Config)) *house {
	srv := engineAt(t, handler)
	h := newHouse(t, change...)
	m := h.model("m", 1, 1)
	if external {
		m.Runner, m.URL = engine.RunnerExternal, srv.URL
		h.dialect.add(srv.URL, &fakeEngine{progress: -1})
	} else {
		h.runner.fixed = srv.URL
	}
	h.run(m)
	eventually(t, "ready", func() bool { return h.state("m#0").State == engine.StateReady })
	return h
}

func (h *house) fake() *fakeEngine {
	m := h.Snapshot()[0].Model
	if m.Runner == engine.RunnerExternal {
		return h.dialect.at(m.URL)
	}
	all := h.runner.all()
	return all[len(all)-1].fake
}

func post(t *testing.T, ctx context.Context, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions?x=1", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func (h *house) do(l *engine.Lease) *http.Response {
	h.t.Helper()
	resp, err := l.Do(post(h.t, context.Background(), "{}"))
	if err != nil {
		h.t.Fatal(err)
	}
	return resp
}

func TestDoGivesTheEngineItsKeyAndNotTheCallers(t *testing.T) {
	for _, external := range []bool{false, true} {
		t.Run(fmt.Sprintf("external=%v", external), func(t *testing.T) {
			var got atomic.Pointer[http.Request]
			h := serving(t, external, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got.Store(r)
				w.Header().Set("X-Got", string(body))
			})
			l := h.acquire(engine.Request{Model: "m"})
			defer l.Release()
			req := post(t, t.Context(), "hello")
			req.Header.Set("Authorization", "Bearer callers")
			req.Header.Set("X-Api-Key", "callers")
			resp, err := l.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			r := got.Load()
			if r.URL.String() != "/v1/chat/completions?x=1" || resp.Header.Get("X-Got") != "hello" {
				t.Errorf("engine got %s with %q", r.URL, resp.Header.Get("X-Got"))
			}
			auth, key := r.Header.Get("Authorization"), r.Header.Get("X-Api-Key")
			if external && (auth != "Bearer callers" || key != "callers") {
				t.Errorf("foreign server got %q and %q, want the caller's", auth, key)
			}
			if !external && (len(auth) != len("Bearer ")+64 || key != "") {
				t.Errorf("engine got Authorization of %d characters and key %q", len(auth), key)
			}
			if req.Header.Get("Authorization") != "Bearer callers" {
				t.Error("the caller's own request was changed")
			}
		})
	}
}

func TestForwardHappensOnce(t *testing.T) {
	var n atomic.Int32
	h := serving(t, true, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) > 1 {
			panic(http.ErrAbortHandler) // closes the connection without a word
		}
		io.WriteString(w, "ok")
	})
	l := h.acquire(engine.Request{Model: "m"})
	resp := h.do(l)
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	l.Release()
	// net/http would repeat this one if it went over the connection of the first.
	l = h.acquire(engine.Request{Model: "m"})
	req := post(t, t.Context(), "{}")
	req.Header.Set("Idempotency-Key", "k")
	if _, err := l.Do(req); err == nil {
		t.Error("a broken connection gave no error")
	}
	l.Release()
	if n.Load() != 2 {
		t.Errorf("the engine got %d requests, want 2", n.Load())
	}
}

func TestSeatIsFreeAtOnceAfterACompleteAnswer(t *testing.T) {
	status := http.StatusOK
	h := serving(t, false, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, "answer")
	})
	for _, status = range []int{http.StatusOK, http.StatusBadRequest} {
		l := h.acquire(engine.Request{Model: "m", NoWait: true})
		resp := h.do(l)
		if body, err := io.ReadAll(resp.Body); string(body) != "answer" || err != nil {
			t.Fatalf("%q, %v", body, err)
		}
		resp.Body.Close()
		l.Release()
	}
	h.acquire(engine.Request{Model: "m", NoWait: true}).Release() // Do never called
	h.acquire(engine.Request{Model: "m", NoWait: true}).Release()
}

func TestSeatIsFreeAtOnceWhenTheEngineCannotBeReached(t *testing.T) {
	const nobody = "http://127.0.0.1:1" // a port that was free a moment ago could be somebody's by now
	h := newHouse(t)
	m := h.model("m", 1, 1)
	m.Runner, m.URL = engine.RunnerExternal, nobody
	h.dialect.add(nobody, &fakeEngine{progress: -1})
	h.run(m)
	eventually(t, "ready", func() bool { return h.state("m#0").State == engine.StateReady })
	l := h.acquire(engine.Request{Model: "m"})
	if _, err := l.Do(post(t, t.Context(), "{}")); err == nil {
		t.Fatal("no error")
	}
	l.Release()
	h.acquire(engine.Request{Model: "m", NoWait: true}).Release()
}

// endless streams until the client leaves, then tells so.
func endless(left chan<- struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			io.WriteString(w, "data: x\n\n")
			w.(http.Flusher).Flush()
			time.Sleep(10 * time.Millisecond)
		}
		left <- struct{}{}
	}
}

func TestSeatIsNotHandedOnBeforeTheEngineLetsGo(t *testing.T) {
	left := make(chan struct{}, 1)
	h := serving(t, false, endless(left))
	f := h.fake()
	f.set(func(f *fakeEngine) { f.slots = busySlots(1, 1) })
	l := h.acquire(engine.Request{Model: "m"})
	resp := h.do(l)
	resp.Body.Read(make([]byte, 8))
	l.Release()
	<-left // the engine sees the client leave without the body being closed
	resp.Body.Close()
	before := len(f.asks())
	granted := make(chan *engine.Lease, 1)
	go func() {
		l, _ := h.Acquire(context.Background(), engine.Request{Model: "m"})
		granted <- l
	}()
	eventually(t, "the engine is asked twice", func() bool { return len(f.asks()) >= before+2 })
	if s := h.state("m#0").Slots[0]; s.State != "releasing" {
		t.Errorf("slot is %s, want releasing", s.State)
	}
	select {
	case <-granted:
		t.Fatal("the seat was handed on while the engine worked")
	default:
	}
	f.set(func(f *fakeEngine) { f.slots = nil })
	(<-granted).Release()
	asks := f.asks()
	for i := 1; i < len(asks); i++ {
		if gap := asks[i].Sub(asks[i-1]); gap < 2*time.Second {
			t.Errorf("asked again after %s", gap)
		}
	}
}

// Of two slots one is seen busy. Is it the one whose client left, or the one that was just granted?
func TestOnlyARunningRequestVouchesForABusySlot(t *testing.T) {
	left := make(chan struct{}, 4)
	srv := engineAt(t, endless(left))
	h := newHouse(t)
	m := h.model("m", 1, 2)
	h.runner.fixed = srv.URL
	h.run(m)
	eventually(t, "ready", func() bool { return h.state("m#0").State == engine.StateReady })
	f := h.fake()
	f.set(func(f *fakeEngine) { f.slots = busySlots(1, 2) })

	held := h.acquire(engine.Request{Model: "m"})
	gone := h.acquire(engine.Request{Model: "m"})
	h.do(gone).Body.Close()
	gone.Release()
	asks := len(f.asks())
	eventually(t, "the engine is asked", func() bool { return len(f.asks()) > asks+1 })
	if _, err := h.Acquire(t.Context(), engine.Request{Model: "m", NoWait: true}); !errors.Is(err, engine.ErrFull) {
		t.Errorf("handed on while the busy slot can only be the last request's: %v", err)
	}

	resp := h.do(held)
	resp.Body.Read(make([]byte, 8))
	h.acquire(engine.Request{Model: "m"}).Release() // now the busy slot is explained
	resp.Body.Close()
	held.Release()
}

func TestEngineWithoutSlotsGetsAGrace(t *testing.T) {
	left := make(chan struct{}, 1)
	h := serving(t, true, endless(left))
	h.fake().set(func(f *fakeEngine) {
		f.slots = func() ([]engine.SlotState, error) { return nil, errors.New("not found") }
	})
	l := h.acquire(engine.Request{Model: "m"})
	h.do(l).Body.Close()
	released := time.Now() // not after it: the grace has begun when Release returns
	l.Release()
	h.acquire(engine.Request{Model: "m"}).Release()
	if took := time.Since(released); took < 3*time.Second {
		t.Errorf("handed on after %s, want a grace of 3s", took)
	}
}

func TestClientThatLeavesEndsTheEnginesRequest(t *testing.T) {
	left := make(chan struct{}, 1)
	h := serving(t, true, endless(left))
	l := h.acquire(engine.Request{Model: "m"})
	ctx, cancel := context.WithCancelCause(t.Context())
	resp, err := l.Do(post(t, ctx, "{}"))
	if err != nil {
		t.Fatal(err)
	}
	cancel(errPatience)
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, errPatience) {
		t.Errorf("reading ended with %v, want the cause", err)
	}
	<-left
	resp.Body.Close()
	l.Release()
	if _, err := l.Do(post(t, t.Context(), "{}")); err == nil {
		t.Error("a released lease ran a request")
	}
}

func TestAnEngineThatSwitchesProtocolsIsLeftAtOnce(t *testing.T) {
	h := serving(t, true, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
		conn.Read(make([]byte, 1)) // until the node closes it
	})
	l := h.acquire(engine.Request{Model: "m"})
	if resp, err := l.Do(post(t, t.Context(), "{}")); err == nil {
		t.Errorf("answered with status %d", resp.StatusCode)
		resp.Body.Close()
	}
	l.Release()
	h.acquire(engine.Request{Model: "m"}).Release()
}

func TestEngineThatDiesMidStreamIsNoCleanEnd(t *testing.T) {
	die := make(chan struct{})
	h := serving(t, false, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "data: x\n\n")
		w.(http.Flusher).Flush()
		<-die
		panic(http.ErrAbortHandler)
	})
	l := h.acquire(engine.Request{Model: "m"})
	resp := h.do(l)
	h.runner.all()[0].die("killed by SIGKILL")
	close(die)
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the answer of a dead engine ended like a complete one")
	}
	resp.Body.Close()
	l.Release()
	eventually(t, "a second process", func() bool { return len(h.runner.all()) == 2 })
}
