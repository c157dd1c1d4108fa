package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"viiwork/engine"
)

const probeTimeout = 2 * time.Minute // a large image on a cold disk takes its time

// Probe runs the model's image with args in a throw-away container. What was printed is returned also when the program
// ended with a fault.
func (r *Runner) Probe(ctx context.Context, m engine.Model, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	h, err := r.host(ctx, m.Image)
	if err != nil {
		return "", err
	}
	cfg, hostCfg := probeSpec(m, args, h)
	out, err := r.throwAway(ctx, cfg, hostCfg)
	if err != nil {
		return out, fmt.Errorf("probing image %s: %w", m.Image, err)
	}
	return out, nil
}

// throwAway runs a container to its end and returns what it printed. Given up half-way, Docker would make a container that
// nobody has heard the name of.
func (r *Runner) throwAway(ctx context.Context, cfg *container.Config, hostCfg *container.HostConfig) (string, error) {
	creating, done := context.WithTimeout(context.WithoutCancel(ctx), stopBudget)
	made, err := r.cli.ContainerCreate(creating, cfg, hostCfg, nil, nil, "")
	done()
	if err != nil {
		return "", r.explain(err)
	}
	defer r.removeProbe(context.WithoutCancel(ctx), made.ID)
	out, err := r.runProbe(ctx, made.ID)
	if err != nil {
		return out, r.explain(err)
	}
	return out, nil
}

// removeProbe is for a probe that was cut short; one that ended by itself is gone, or on its way.
func (r *Runner) removeProbe(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, stopBudget)
	defer cancel()
	_ = r.cli.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
}

func (r *Runner) runProbe(ctx context.Context, id string) (string, error) {
	stream, err := r.cli.ContainerAttach(ctx, id, container.AttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err != nil {
		return "", err
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, stream.Close)() // the hijacked connection knows nothing of ctx

	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	ended, failed := r.cli.ContainerWait(waiting, id, container.WaitConditionNextExit)
	if err := r.cli.ContainerStart(ctx, id, container.StartOptions{}); err != nil {
		return "", err
	}
	out := &engine.Printed{}
	_, err = stdcopy.StdCopy(out, out, stream.Reader)
	if ctx.Err() != nil {
		return out.String(), ctx.Err()
	}
	if err != nil {
		return out.String(), err
	}
	select {
	case end := <-ended:
		if end.StatusCode != 0 {
			return out.String(), errors.New(exitOf(int(end.StatusCode), false, "").Reason)
		}
		return out.String(), nil
	case err := <-failed:
		return out.String(), err
	}
}
