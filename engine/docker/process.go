package docker

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/docker/go-connections/nat"
	"golang.org/x/sys/unix"

	"viiwork/engine"
)

const (
	grace       = 2 * time.Second  // between two signals
	stopBudget  = 30 * time.Second // for the clean-up of a Stop, whatever became of its caller
	daemonRetry = time.Second      // between two looks at a daemon that has gone away
)

// process is one container.
type process struct {
	r      *Runner
	record engine.Record

	mu   sync.Mutex
	exit *engine.Exit // once known; the container may be gone by the next call
}

// process reads the record of a container out of its labels and its published port.
func (r *Runner) process(ctx context.Context, id string) (*process, error) {
	c, err := r.cli.ContainerInspect(ctx, id)
	if err != nil {
		return nil, err
	}
	record := engine.Record{ID: short(c.ID)}
	if c.Config != nil {
		record.Backend, record.Hash = c.Config.Labels[labelBackend], c.Config.Labels[labelHash]
	}
	if c.State != nil {
		record.PID = c.State.Pid
	}
	if c.NetworkSettings != nil {
		for _, bound := range c.NetworkSettings.Ports[nat.Port(strconv.Itoa(enginePort)+"/tcp")] {
			record.URL = "http://127.0.0.1:" + bound.HostPort
		}
	}
	return &process{r: r, record: record}, nil
}

// Record has no URL when the engine had ended before Docker told its port; Wait says how.
func (p *process) Record() engine.Record { return p.record }

// Wait also sits out a restart of the Docker daemon itself, which may leave containers running.
func (p *process) Wait(ctx context.Context) (engine.Exit, error) {
	for {
		p.mu.Lock()
		known := p.exit
		p.mu.Unlock()
		if known != nil {
			return *known, nil
		}
		err := p.await(ctx)
		if ctx.Err() != nil {
			return engine.Exit{}, ctx.Err()
		}
		if err == nil {
			err = p.learnExit(ctx)
		}
		if cerrdefs.IsNotFound(err) {
			p.setExit(engine.Exit{Code: -1, Reason: "container removed"})
		} else if err != nil {
			p.r.cfg.Log.Debug("waiting for a container was cut short", "container", p.record.ID, "error", err)
			sleep(ctx, daemonRetry)
		}
	}
}

func (p *process) await(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended, failed := p.r.cli.ContainerWait(ctx, p.record.ID, container.WaitConditionNotRunning)
	select {
	case <-ended:
		return nil
	case err := <-failed:
		return err
	}
}

func (p *process) learnExit(ctx context.Context) error {
	c, err := p.r.cli.ContainerInspect(ctx, p.record.ID)
	if err != nil {
		return err
	}
	if c.State != nil && !c.State.Running {
		p.setExit(exitOf(c.State.ExitCode, c.State.OOMKilled, c.State.Error))
	}
	return nil
}

func (p *process) setExit(exit engine.Exit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exit == nil {
		p.exit = &exit
	}
}

// exitOf reads Docker's account of an end: a signal n is told as status 128+n.
func exitOf(code int, oom bool, failure string) engine.Exit {
	exit := engine.Exit{Code: code, Reason: fmt.Sprintf("exit status %d", code)}
	if name := unix.SignalName(unix.Signal(code - 128)); code > 128 && name != "" {
		exit = engine.Exit{Code: -1, Reason: "killed by " + name}
	}
	if failure != "" {
		exit.Reason = failure
	}
	if oom {
		exit.Reason = "out of memory"
	}
	return exit
}

// Stop ends the container and removes it. A ctx that ends cuts the patience short, not the clean-up.
func (p *process) Stop(ctx context.Context) error {
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopBudget)
	defer cancel()
	for _, signal := range []string{"SIGTERM", "SIGTERM", "SIGKILL"} {
		err := p.r.cli.ContainerKill(clean, p.record.ID, signal)
		if cerrdefs.IsNotFound(err) {
			p.setExit(engine.Exit{Code: -1, Reason: "container removed"})
			return nil
		}
		if err != nil || p.endsWithin(ctx) { // an error: not running any more, which the removal below settles
			break
		}
	}
	// An exit learned now is worth more than "container removed" later.
	_ = p.learnExit(clean)
	err := p.r.cli.ContainerRemove(clean, p.record.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !cerrdefs.IsNotFound(err) {
		return fmt.Errorf("removing container %s of backend %s: %w", p.record.ID, p.record.Backend, p.r.explain(err))
	}
	return nil
}

func (p *process) endsWithin(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	_, err := p.Wait(ctx)
	return err == nil
}

// Logs works until Stop has removed the container, also after the engine has ended.
func (p *process) Logs(ctx context.Context, w io.Writer, tail int, follow bool) error {
	lines := "all"
	if tail >= 0 {
		lines = strconv.Itoa(tail)
	}
	stream, err := p.r.cli.ContainerLogs(ctx, p.record.ID,
		container.LogsOptions{ShowStdout: true, ShowStderr: true, Follow: follow, Tail: lines})
	if err == nil {
		defer stream.Close()
		_, err = stdcopy.StdCopy(w, w, stream)
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("reading the log of backend %s: %w", p.record.Backend, p.r.explain(err))
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
