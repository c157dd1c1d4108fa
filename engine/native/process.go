package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"viiwork/engine"
)

const (
	grace     = 2 * time.Second  // between two signals
	killGrace = 10 * time.Second // after SIGKILL: freeing tens of gigabytes takes its time
)

// process is one engine, started by this run of the node or found.
type process struct {
	rec                 record
	recordPath, logPath string
	log                 *slog.Logger

	// mu is held from the look at the process to the act that relies on it: nobody else reaps it in between, so its
	// number cannot pass to another process.
	mu   sync.Mutex
	exit *engine.Exit // once ended
}

func (p *process) Record() engine.Record {
	return engine.Record{
		ID:      fmt.Sprintf("pid %d", p.rec.PID),
		Backend: p.rec.Backend,
		Hash:    p.rec.Hash,
		URL:     p.rec.url(),
		PID:     p.rec.PID,
	}
}

// Wait knows the exit status only of processes this run of the node has started: of a found one the system tells it
// to nobody but its new parent. As long as it waits it also keeps the log within bounds.
func (p *process) Wait(ctx context.Context) (engine.Exit, error) {
	for {
		if exit, ended := p.ended(); ended {
			return exit, nil
		}
		if err := ctx.Err(); err != nil {
			return engine.Exit{}, err
		}
		if err := trimLog(p.logPath); err != nil {
			p.log.Warn("an engine log could not be cut", "backend", p.rec.Backend, "error", err)
		}
		awaitEnd(ctx, p.rec.PID, trimEvery)
	}
}

// ended looks whether the process is over, reaps it if it is our child, and ends what it left in its group.
func (p *process) ended() (engine.Exit, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exit != nil {
		return *p.exit, true
	}
	// Looked at first and reaped after: the other way round, one that ends in between would be taken for somebody
	// else's child, its status lost and its remains never cleared.
	alive, err := p.rec.lives()
	if alive || err != nil {
		return engine.Exit{}, false
	}
	exit, done := reap(p.rec.PID)
	if !done {
		return engine.Exit{}, false
	}
	p.exit = &exit
	// A number in use as a group's is never given to a new process. So if nobody has it and the group is there, the
	// group is what this engine left behind.
	if errors.Is(unix.Kill(p.rec.PID, 0), unix.ESRCH) {
		_ = unix.Kill(-p.rec.PID, unix.SIGKILL)
	}
	return exit, true
}

// reap takes the status of a process that has ended, if it is our child; done is false while threads of it are still
// on their way out, with the memory they hold.
func reap(pid int) (exit engine.Exit, done bool) {
	var status unix.WaitStatus
	got, err := unix.Wait4(pid, &status, unix.WNOHANG, nil)
	if err != nil { // not our child
		return engine.Exit{Code: -1, Reason: "ended, status unknown"}, true
	}
	if got != pid {
		return engine.Exit{}, false
	}
	if status.Signaled() {
		return engine.Exit{Code: -1, Reason: "killed by " + unix.SignalName(status.Signal())}, true
	}
	return engine.Exit{Code: status.ExitStatus(), Reason: fmt.Sprintf("exit status %d", status.ExitStatus())}, true
}

// Stop ends the whole session of the engine and removes its record. A ctx that ends cuts the patience short.
func (p *process) Stop(ctx context.Context) error {
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGTERM} {
		p.signal(signal)
		if p.endsWithin(ctx, grace) {
			break
		}
	}
	p.signal(unix.SIGKILL)
	if !p.endsWithin(context.WithoutCancel(ctx), killGrace) {
		return fmt.Errorf("stopping backend %s: process %d does not end even when killed, as happens when a driver hangs: restart this machine",
			p.rec.Backend, p.rec.PID)
	}
	p.awaitGroup()
	if err := removeRecord(p.recordPath, p.rec); err != nil {
		return fmt.Errorf("removing the record of backend %s: %w", p.rec.Backend, err)
	}
	return nil
}

// awaitGroup gives what a wrapper script had started, killed by now, a moment to be gone: it may hold memory of the
// cards. No longer than grace: dead processes that nobody reaps count as a group for ever.
func (p *process) awaitGroup() {
	for range grace / lookEvery {
		if errors.Is(unix.Kill(-p.rec.PID, 0), unix.ESRCH) {
			return
		}
		time.Sleep(lookEvery)
	}
}

// killUnrecorded ends a process nobody would find again. It was just started and not yet reaped, so its number is its
// own.
func killUnrecorded(pid int) {
	_ = unix.Kill(-pid, unix.SIGKILL)
	_, _ = unix.Wait4(pid, nil, 0, nil)
}

func (p *process) signal(signal unix.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if alive, err := p.rec.lives(); p.exit != nil || !alive || err != nil {
		return
	}
	if err := unix.Kill(-p.rec.PID, signal); err != nil {
		p.log.Debug("a signal did not reach an engine", "backend", p.rec.Backend, "signal", unix.SignalName(signal), "error", err)
	}
}

func (p *process) endsWithin(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	_, err := p.Wait(ctx)
	return err == nil
}

// Logs reads the engine's log file, of this run only.
func (p *process) Logs(ctx context.Context, w io.Writer, tail int, follow bool) error {
	over := func() bool { _, ended := p.ended(); return ended }
	if !follow {
		over = func() bool { return true }
	}
	if err := copyLog(ctx, w, logView{path: p.logPath, tail: tail, over: over}); err != nil {
		return fmt.Errorf("reading the log of backend %s: %w", p.rec.Backend, err)
	}
	return nil
}
