package enginetest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// slotAction is POST /slots/N?action=save|restore|erase. It waits until the slot is idle, and while it happens nothing
// else does.
func (s *Server) slotAction(w http.ResponseWriter, r *http.Request) {
	answer, err := s.actOnSlot(r)
	if err != nil {
		sendError(w, asAPIError(err))
		return
	}
	send(w, http.StatusOK, answer)
}

func (s *Server) actOnSlot(r *http.Request) (any, error) {
	if s.o.SaveDir == "" {
		return nil, notSupported("slots action", "--slot-save-path")
	}
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil {
		return nil, badRequest("Invalid slot ID")
	}
	action := r.URL.Query().Get("action")
	var name string
	switch action {
	case "save", "restore":
		if name, err = slotFile(bodyOf(r)); err != nil {
			return nil, err
		}
	case "erase":
	default:
		return nil, badRequest("Invalid action")
	}
	s.needsLoop(r)
	sl := s.seize(id)
	defer s.slots.unseize(sl)
	if !s.loop.enter(s.ctx, context.Background(), s.fault.crashing()) {
		panic(http.ErrAbortHandler)
	}
	began := time.Now()
	defer s.loop.leave(began)
	defer s.result()
	took := func() float64 { return float64(time.Since(began).Microseconds()) / 1000 * s.o.Speed }
	switch action {
	case "save":
		n, err := s.save(sl, name)
		if errors.Is(err, errDropped) {
			panic(http.ErrAbortHandler)
		}
		if err != nil {
			return nil, badRequest("Unable to save slot")
		}
		return object{"id_slot": id, "filename": name, "n_saved": n, "n_written": s.o.layout().size(n), "timings": object{"save_ms": took()}}, nil
	case "restore":
		n, err := s.restore(sl, name)
		if errors.Is(err, errDropped) {
			panic(http.ErrAbortHandler)
		}
		if err != nil {
			return nil, badRequest("Unable to restore slot: No available space in KV cache or invalid slot save file")
		}
		return object{"id_slot": id, "filename": name, "n_restored": len(sl.tokens), "n_read": n, "timings": object{"restore_ms": took()}}, nil
	}
	n := len(sl.tokens)
	s.slots.update(func() { sl.tokens = nil })
	return object{"id_slot": id, "n_erased": n}, nil
}

func slotFile(body []byte) (string, error) {
	f, err := decodeBody(body)
	if err != nil {
		return "", err
	}
	name, ok := f.m["filename"].(string)
	switch {
	case !ok:
		return "", badRequest("[json.exception.out_of_range.403] key 'filename' not found")
	case name == "" || strings.Contains(name, "..") || name != filepath.Base(name) || strings.ContainsAny(name, "\\\x00"):
		return "", badRequest("Invalid filename")
	}
	return name, nil
}

// seize waits for one slot, whoever else is idle. A client that leaves is not noticed: what it asked for happens.
func (s *Server) seize(id int) *slot {
	n := s.o.Slots
	sl, w := s.slots.ask((id%n+n)%n, nil)
	if w == nil {
		return sl
	}
	select {
	case sl = <-w.granted:
		return sl
	case <-s.ctx.Done():
	}
	s.slots.leave(w)
	panic(http.ErrAbortHandler)
}

// save writes the file a step at a time, so that a server that ends meanwhile leaves a part of it.
func (s *Server) save(sl *slot, name string) (int, error) {
	tokens := sl.tokens
	if s.fault.get().EmptySave {
		tokens = nil
	}
	f, err := os.OpenFile(filepath.Join(s.o.SaveDir, name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	p := s.pace(f)
	err = s.o.layout().write(p, tokens)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return len(tokens), err
}

// restore fills a slot from a file. When that fails the slot is empty, as it is with the engine.
func (s *Server) restore(sl *slot, name string) (int64, error) {
	tokens, size, err := s.load(name)
	s.slots.update(func() { sl.tokens, sl.cold = tokens, s.fault.get().ColdRestore })
	return size, err
}

func (s *Server) load(name string) ([]byte, int64, error) {
	f, err := os.Open(filepath.Join(s.o.SaveDir, name))
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	tokens, err := s.o.layout().read(f, s.o.Context)
	if err != nil {
		return nil, 0, err
	}
	size := s.o.layout().size(len(tokens))
	return tokens, size, s.pace(nil).take(size)
}

// pace lets the bytes of a save or restore take the time they do.
func (s *Server) pace(w io.Writer) *pacer {
	return &pacer{s: s, w: w, due: time.Now(), crash: s.fault.crashing()}
}

type pacer struct {
	s     *Server
	w     io.Writer
	due   time.Time
	crash <-chan struct{}
}

func (p *pacer) Write(b []byte) (int, error) {
	if err := p.take(int64(len(b))); err != nil {
		return 0, err
	}
	return p.w.Write(b)
}

// take waits for n bytes more; the server's end cuts it short.
func (p *pacer) take(n int64) error {
	if p.s.o.SaveBPS > 0 {
		p.due = p.due.Add(p.s.scaled(time.Duration(float64(n) / p.s.o.SaveBPS * float64(time.Second))))
	}
	timer := time.NewTimer(time.Until(p.due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-p.s.ctx.Done():
	case <-p.crash:
	}
	return errDropped
}
