package enginetest

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Faults are what a server can be made to do wrong. The zero value is a server without faults.
type Faults struct {
	// Silent freezes all work, what runs and what comes: connections are accepted and nothing is answered. Health,
	// models and props, which need no slot, are answered as before.
	Silent bool
	// HealthHang leaves only the health routes without an answer.
	HealthHang bool
	// Down drops every new connection without an answer.
	Down bool
	// Garbage answers everything but health with what is neither JSON nor a stream.
	Garbage bool
	// Fail answers inference with this status before any work is done.
	Fail int
	// CrashAfter drops the connection of an inference after so many tokens; streams end in the middle of a chunk.
	CrashAfter int
	// ErrorAfter ends an inference with the engine's own error after so many tokens.
	ErrorAfter int
	// EmptySave makes a slot save nothing and say that it went well.
	EmptySave bool
	// ColdRestore makes a restored slot compute the next prompt from its beginning, whatever it said it had read.
	ColdRestore bool
	// Slow is added to each batch of prefill and to each token.
	Slow time.Duration
}

// SetFaults replaces the faults; running requests are hit by the new ones at their next step.
func (s *Server) SetFaults(f Faults) { s.fault.set(f) }

// Crash drops all connections at once, with whatever ran on them, as the end of the process would. New connections are
// taken as before; Faults.Down makes it stay away.
func (s *Server) Crash() {
	s.fault.crash()
	s.slots.emptyAll()
}

// faultState holds the faults and wakes those who wait for them to change.
type faultState struct {
	mu      sync.Mutex
	now     Faults
	changed chan struct{}
	crashed chan struct{} // closed, and replaced, by a crash
}

func (f *faultState) init() { f.changed, f.crashed = make(chan struct{}), make(chan struct{}) }

func (f *faultState) get() Faults {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *faultState) set(v Faults) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = v
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *faultState) crash() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.crashed)
	f.crashed = make(chan struct{})
}

// crashing is closed by the next crash.
func (f *faultState) crashing() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.crashed
}

// wait returns when held is no longer true of the faults (true), or one of the contexts ended or the server crashed
// (false).
func (f *faultState) wait(server, client context.Context, held func(Faults) bool) bool {
	for {
		f.mu.Lock()
		now, changed, crashed := f.now, f.changed, f.crashed
		f.mu.Unlock()
		if !held(now) {
			return true
		}
		select {
		case <-changed:
		case <-crashed:
			return false
		case <-server.Done():
			return false
		case <-client.Done():
			return false
		}
	}
}

func isSilent(f Faults) bool { return f.Silent }

// needsLoop stands before the routes whose answer comes from the engine's own loop: with Faults.Silent there is none.
func (s *Server) needsLoop(r *http.Request) {
	if !s.fault.wait(s.ctx, r.Context(), isSilent) || !s.loop.pass(s.ctx, r.Context(), s.fault.crashing()) {
		panic(http.ErrAbortHandler)
	}
	s.result()
}

// result notes that a task had a result.
func (s *Server) result() { s.lastResult.Store(time.Now().UnixNano()) }

func garbage(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodPost && !strings.HasPrefix(r.URL.Path, "/slots") {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	w.Write([]byte("data: {\"choices\":[{\"delta\":{\"con\x00\xff\xfe\x1b[31m\n\n<html>502</html>\r\n\x00"))
}
