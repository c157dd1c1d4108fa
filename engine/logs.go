package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// maxLogLine bounds what is kept of a line that has not ended yet.
const maxLogLine = 64 << 10

// LogRequest says what of the engines' output is wanted.
type LogRequest struct {
	Models []string
	Tail   int  // last lines of each engine; negative = all
	Follow bool // and what comes until ctx ends, over restarts too
}

// Logs writes to w what the engines of some models printed, whole lines at a time and one w.Write a line. When it comes
// from several backends every line begins with its backend's id. A model that is not known, or whose server is not ours,
// is an error, told when the others have been written.
func (e *Engine) Logs(ctx context.Context, w io.Writer, r LogRequest) error {
	backends, errs := e.logged(r.Models)
	var (
		mu sync.Mutex // guards w
		wg sync.WaitGroup
	)
	failed := make([]error, len(backends))
	for i, b := range backends {
		lines := &lineWriter{mu: &mu, w: w}
		if len(backends) > 1 {
			lines.prefix = b.id + ": "
		}
		wg.Go(func() { failed[i] = errors.Join(b.logs(ctx, lines, r.Tail, r.Follow), lines.end()) })
	}
	wg.Wait()
	if !r.Follow || ctx.Err() == nil {
		errs = append(errs, failed...)
	}
	return errors.Join(errs...)
}

// logged lists the backends of models that have a log, and why others have none.
func (e *Engine) logged(models []string) (backends []*backend, errs []error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, model := range models {
		switch en := e.entry(model); {
		case en == nil:
			errs = append(errs, fmt.Errorf("reading logs: %w: %.200q", ErrUnknownModel, model))
		case en.model.Runner == RunnerExternal:
			errs = append(errs, fmt.Errorf("reading logs: viiwork did not start %s: look at the log of that server", model))
		default:
			backends = append(backends, en.backends...)
		}
	}
	return backends, errs
}

// logs writes the output of one backend's process, and of the next one when it is followed.
func (b *backend) logs(ctx context.Context, w *lineWriter, tail int, follow bool) error {
	for {
		b.engine.mu.Lock()
		if now := b.entry.backend(b.id); now != nil {
			b = now // another one took its place
		}
		proc, changed := b.proc, b.procChanged
		b.engine.mu.Unlock()
		if proc != nil {
			if err := proc.Logs(ctx, w, tail, follow); err != nil && !follow {
				return fmt.Errorf("reading the log of %s: %w", b.id, err)
			}
		}
		if !follow || w.err != nil {
			return nil
		}
		tail = -1 // of a process that came while we watched, everything
		select {
		case <-ctx.Done():
			return nil
		case <-b.done:
			if !b.replaced() {
				return nil
			}
		case <-changed:
		}
	}
}

// lineWriter passes on whole lines only, so that several engines do not write into each other's.
type lineWriter struct {
	mu     *sync.Mutex // one for all that share w
	w      io.Writer
	prefix string
	rest   []byte
	err    error
}

func (l *lineWriter) Write(p []byte) (int, error) {
	if l.err != nil {
		return 0, l.err
	}
	l.rest = append(l.rest, p...)
	for l.err == nil {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 && len(l.rest) < maxLogLine {
			break
		}
		next := i + 1
		if i < 0 {
			i, next = maxLogLine, maxLogLine
		}
		l.emit(l.rest[:i])
		l.rest = l.rest[next:]
	}
	return len(p), l.err
}

func (l *lineWriter) emit(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, l.err = fmt.Fprintf(l.w, "%s%s\n", l.prefix, line)
}

func (l *lineWriter) end() error {
	if len(l.rest) > 0 && l.err == nil {
		l.emit(l.rest)
	}
	return l.err
}
