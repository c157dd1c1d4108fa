package engine_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"viiwork/engine"
)

// wire is a listener in memory, so that requests go by fake time.
type wire struct {
	conns chan net.Conn
	ended chan struct{}
}

func (w *wire) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case w.conns <- there:
		return here, nil
	case <-w.ended:
		return nil, net.ErrClosed
	}
}

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.ended:
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error   { close(w.ended); return nil }
func (w *wire) Addr() net.Addr { return &net.TCPAddr{} }

// TestOldEngineInALongPrefillIsNotSilent: nothing comes from it, but it works. One that does nothing is ended, and who waits for
// it is told.
func TestOldEngineInALongPrefillIsNotSilent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &wire{make(chan net.Conn), make(chan struct{})}
		server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		})}
		go server.Serve(w)
		defer server.Close()
		h := newHouse(t, roomy)
		h.ReachBy(w.dial)
		m := h.model("m", 1, 1)
		h.run(m)
		pass(5 * time.Second)
		old := h.runner.of("m#0")[0]
		var work atomic.Int64
		var stuck atomic.Bool
		old.fake.set(func(f *fakeEngine) {
			f.slots = func() ([]engine.SlotState, error) {
				if !stuck.Load() {
					work.Add(512)
				}
				return []engine.SlotState{{Processing: true, Work: int(work.Load())}}, nil
			}
		})
		held := h.acquire(engine.Request{Model: "m"})
		defer held.Release()
		answer := make(chan error, 1)
		go func() {
			_, err := held.Do(post(t, t.Context(), "{}"))
			answer <- err
		}()
		pass(time.Second)
		h.Apply([]engine.Model{newProgram(m)})
		pass(10 * time.Second)
		if !held.Replaced() {
			t.Fatal("the new one does not serve")
		}
		pass(5 * time.Minute)
		if !old.alive() {
			t.Fatal("it was ended in the middle of its work")
		}
		stuck.Store(true)
		pass(110 * time.Second)
		if !old.alive() {
			t.Fatal("it was ended before the stall time was over")
		}
		pass(20 * time.Second)
		if err := <-answer; !errors.Is(err, engine.ErrSilent) || old.alive() {
			t.Errorf("alive %v, and who waited is told %v", old.alive(), err)
		}
	})
}
