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

// Logs writes what the engines of a model printed: the last tail lines of each (all when negative), and with follow
// what comes until ctx ends, over restarts too. With several backends every line begins with its backend's id.
func (e *Engine) Logs(ctx context.Context, model string, w io.Writer, tail int, follow bool) error {
	e.mu.Lock()
	en := e.entry(model)
	e.mu.Unlock()
	if en == nil {
		return fmt.Errorf("reading logs: %w: %.200q", ErrUnknownModel, model)
	}
	if en.model.Runner == RunnerExternal {
		return fmt.Errorf("reading logs: viiwork did not start %s: look at the log of that server", model)
	}
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		errs = make([]error, len(en.backends))
	)
	for i, b := range en.backends {
		lines := &lineWriter{mu: &mu, w: w}
		if len(en.backends) > 1 {
			lines.prefix = b.id + ": "
		}
		wg.Go(func() { errs[i] = errors.Join(b.logs(ctx, lines, tail, follow), lines.end()) })
	}
	wg.Wait()
	if follow && ctx.Err() != nil {
		return nil
	}
	return errors.Join(errs...)
}

// logs writes the output of one backend's process, and of the next one when it is followed.
func (b *backend) logs(ctx context.Context, w *lineWriter, tail int, follow bool) error {
	for {
		b.engine.mu.Lock()
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
			return nil
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
