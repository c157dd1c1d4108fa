package appliance

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
)

// lineWriter joins the logs of several models into one answer, whole lines at a time.
type lineWriter struct {
	named bool // each line says which model it comes from

	mu  sync.Mutex // guards out
	out http.ResponseWriter
}

func newLineWriter(out http.ResponseWriter, named bool) *lineWriter {
	return &lineWriter{out: out, named: named}
}

// each runs fill for all names at once and returns when all have ended.
func (w *lineWriter) each(names []string, fill func(name string, to *modelWriter) error) error {
	failed := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			to := &modelWriter{all: w, name: name}
			failed[i] = fill(name, to)
			to.flush()
		})
	}
	all.Wait()
	return w.tell(errors.Join(failed...))
}

// tell writes an error as a last line: the status line is long gone.
func (w *lineWriter) tell(err error) error {
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		_, _ = io.WriteString(w.out, "viiwork: "+err.Error()+"\n")
	}
	return nil
}

// modelWriter holds back the unfinished line of one model.
type modelWriter struct {
	all  *lineWriter
	name string
	rest []byte
}

// Write passes on whole lines, and lines longer than 64 KiB in pieces.
func (m *modelWriter) Write(p []byte) (int, error) {
	m.rest = append(m.rest, p...)
	end := bytes.LastIndexByte(m.rest, '\n') + 1
	if end == 0 && len(m.rest) > 64<<10 {
		end = len(m.rest)
	}
	if end == 0 {
		return len(p), nil
	}
	err := m.emit(m.rest[:end])
	m.rest = append(m.rest[:0], m.rest[end:]...)
	return len(p), err
}

func (m *modelWriter) flush() {
	if len(m.rest) > 0 {
		_ = m.emit(append(m.rest, '\n'))
	}
}

func (m *modelWriter) emit(lines []byte) error {
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	for line := range bytes.Lines(lines) {
		if m.all.named {
			line = append([]byte(m.name+" | "), line...)
		}
		if _, err := m.all.out.Write(line); err != nil {
			return err
		}
	}
	return http.NewResponseController(m.all.out).Flush()
}
