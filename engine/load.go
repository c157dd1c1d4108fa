package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	defaultStartup = 10 * time.Minute
	askTime        = 5 * time.Second // for a short question to an engine
	proveTime      = 2 * time.Minute // for one token
)

var (
	errTooSlow = errors.New("loading took longer than startup_timeout")
	errLoading = errors.New("it is still loading")
)

// loadInTime is load with the model's own limit.
func (b *backend) loadInTime(alive context.Context, t *term) (Props, error) {
	limit := b.patience()
	ctx, cancel := context.WithTimeoutCause(alive, limit, fmt.Errorf("%w (%s)", errTooSlow, limit))
	defer cancel()
	return b.load(ctx, t)
}

// patience is how long the model may load.
func (b *backend) patience() time.Duration {
	if b.model.StartupTimeout <= 0 {
		return defaultStartup
	}
	return b.model.StartupTimeout
}

// load asks until the engine has answered a real request: quickly at first, as a small model is there at once, then
// once a second. A foreign server that is away is asked less and less often, 5 s at most apart.
func (b *backend) load(ctx context.Context, t *term) (Props, error) {
	wait, longest := 100*time.Millisecond, time.Second
	if b.external() {
		wait, longest = time.Second, maxVisitPause
	}
	told := false
	for {
		props, err := b.try(ctx, t)
		if err == nil {
			return props, nil
		}
		if ctx.Err() != nil {
			return Props{}, stopped(ctx, err)
		}
		if b.external() {
			err := fmt.Errorf("the server of this model does not answer as it should: %w: start it, or correct its url", err)
			b.note(err)
			if !told { // once; the visits go on, and what each met is in the status
				b.engine.cfg.Log.Warn("backend is not serving", "backend", b.id, "error", err)
			}
			told = true
		}
		if !sleep(ctx, wait) {
			return Props{}, stopped(ctx, err)
		}
		wait = min(2*wait, longest)
	}
}

// stopped tells why ctx ended and, when time ran out, what was in the way until then.
func stopped(ctx context.Context, last error) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, errTooSlow) {
		return fmt.Errorf("%w, last: %w", cause, last)
	}
	return cause
}

// try takes the engine's own word, then a real answer, since an engine may say ready and yet hang on every request.
func (b *backend) try(ctx context.Context, t *term) (Props, error) {
	d := b.engine.cfg.Dialect
	h, err := b.check(ctx, t.target)
	if err != nil {
		return Props{}, err
	}
	if !h.Ready {
		if b.external() {
			b.set(StateLoading)
		}
		b.loading(ctx, t, h.Progress)
		return Props{}, errLoading
	}
	proving, cancel := context.WithTimeout(ctx, proveTime)
	defer cancel()
	if err := d.Prove(proving, t.target, b.model.Name); err != nil {
		return Props{}, fmt.Errorf("proving the engine with a request: %w", err)
	}
	asking, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	p, err := d.Props(asking, t.target)
	if err != nil {
		return Props{}, fmt.Errorf("asking the engine what it serves: %w", err)
	}
	return p, nil
}

func (b *backend) check(ctx context.Context, t Target) (Health, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return b.engine.cfg.Dialect.Check(ctx, t)
}

// loading keeps how far it is, out of the engine's log when it does not say so itself.
func (b *backend) loading(ctx context.Context, t *term, progress float64) {
	if progress < 0 && t.proc != nil {
		progress = b.engine.cfg.Dialect.Progress(logTail(ctx, t.proc, 50))
	}
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	b.progress = min(progress, 1)
}
