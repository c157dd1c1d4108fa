package engine

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	findTime  = 30 * time.Second // for one look at what runs
	findAgain = 5 * time.Second
	stopTime  = 30 * time.Second // for a runner to end a process
)

// find looks for what an earlier run left with one runner, until it has had an answer: keeps what is still wanted for
// its backend to adopt, stops the rest, and only then lets this runner's backends start, since the rest may sit on
// their cards. A runner that cannot answer keeps nobody else from starting.
func (e *Engine) find(ctx context.Context, kind RunnerKind, r Runner) {
	for {
		procs, err := e.look(ctx, r)
		e.mu.Lock()
		news := (err == nil) != (e.findErr[kind] == nil)
		e.findErr[kind] = err
		e.mu.Unlock()
		if err == nil {
			e.sort(ctx, kind, procs)
			close(e.gates[kind])
			return
		}
		if ctx.Err() != nil {
			return
		}
		if news {
			level := slog.LevelDebug
			if e.uses(kind) {
				level = slog.LevelWarn
			}
			e.cfg.Log.Log(ctx, level, "engines cannot be looked for; trying on", "runner", string(kind), "error", err)
		}
		if !sleep(ctx, findAgain) {
			return
		}
	}
}

// uses reports whether a wanted model needs that runner.
func (e *Engine) uses(kind RunnerKind) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.order, func(en *entry) bool { return en.model.Runner == kind })
}

func (e *Engine) look(ctx context.Context, r Runner) ([]Process, error) {
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	return r.Find(ctx)
}

// sort keeps the processes that are wanted and stops the others.
func (e *Engine) sort(ctx context.Context, kind RunnerKind, procs []Process) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, p := range procs {
		rec := p.Record()
		if e.keep(kind, rec.Backend, p) {
			continue
		}
		e.cfg.Log.Info("stopping an engine that is no longer wanted", "backend", rec.Backend, "process", rec.ID)
		wg.Go(func() {
			if err := stopProcess(ctx, p); err != nil {
				e.cfg.Log.Warn("an engine that is no longer wanted does not stop", "process", rec.ID, "error", err)
			}
			if !e.wants(rec.Backend) {
				e.clearHome(rec.Backend)
			}
		})
	}
}

// sweep ends what is left of this node's engines when they are to end with Run: those that were found and not yet
// adopted, or not even looked for.
func (e *Engine) sweep(ctx context.Context) {
	e.mu.Lock()
	stop := e.stop
	e.mu.Unlock()
	if !stop {
		return
	}
	ctx = context.WithoutCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	for kind, r := range e.cfg.Runners {
		procs, err := e.look(ctx, r)
		if err != nil && e.uses(kind) {
			e.cfg.Log.Warn("engines cannot be looked for; they may run on", "runner", string(kind), "error", err)
		}
		for _, p := range procs {
			wg.Go(func() {
				if err := stopProcess(ctx, p); err != nil {
					e.cfg.Log.Warn("an engine does not stop", "process", p.Record().ID, "error", err)
				}
			})
		}
	}
}

// keep remembers p for its backend. The second process of one name is not kept.
func (e *Engine) keep(kind RunnerKind, name string, p Process) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.berthed(name)
	if b == nil || b.model.Runner != kind || e.found[name] != nil {
		return false
	}
	e.found[name] = p
	return true
}

func (e *Engine) wants(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.berthed(name) != nil
}

// takeFound gives the process of that name that an earlier run left, once.
func (e *Engine) takeFound(name string) Process {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.found[name]
	delete(e.found, name)
	return p
}

// stopProcess ends p even when ctx has ended: it ends the wait, not the clean-up.
func stopProcess(ctx context.Context, p Process) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	return p.Stop(ctx)
}

// sleep reports whether the time passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
