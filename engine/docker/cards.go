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

// A node that itself runs in a container has no driver's tools: it borrows those that Docker puts into containers with
// cards.

const toolTimeout = 20 * time.Second

// ProbeCards runs one of the driver's programs in a throw-away container of image that is given all NVIDIA cards. What
// was printed is returned also when the program ended with a fault.
func (r *Runner) ProbeCards(ctx context.Context, image, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	h, err := r.host(ctx, image)
	if err != nil {
		return "", err
	}
	cfg, hostCfg := cardsSpec(image, program, args, h)
	out, err := r.throwAway(ctx, cfg, hostCfg)
	if err != nil {
		return out, fmt.Errorf("asking for the cards in a container of %s: %w", image, err)
	}
	return out, nil
}

// cardsSpec is a probe with all cards and with the tools that come with them.
func cardsSpec(image, program string, args []string, h host) (*container.Config, *container.HostConfig) {
	cfg, hostCfg := probeSpec(engine.Model{Image: image}, args, h)
	cfg.Entrypoint = []string{program}
	cfg.Env = nil // a probe's own hides the cards
	hostCfg.DeviceRequests = []container.DeviceRequest{{Count: -1, Capabilities: [][]string{{"gpu", "utility"}}}}
	return cfg, hostCfg
}

// Exec runs a program in a running container of this node and returns what it printed, also when it ended with a fault.
// Docker cannot end such a program: while one that took too long still runs, no other is started in its container.
func (r *Runner) Exec(ctx context.Context, id, program string, args ...string) (string, error) {
	if r.clientErr != nil {
		return "", r.explain(r.clientErr)
	}
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	if err := r.execHangs(ctx, id); err != nil {
		return "", fmt.Errorf("running %s in container %s: %w", program, short(id), err)
	}
	out, err := r.exec(ctx, id, append([]string{program}, args...))
	if err != nil {
		return out, fmt.Errorf("running %s in container %s: %w", program, short(id), r.explain(err))
	}
	return out, nil
}

// execHangs looks whether the program that was left behind in a container still runs.
func (r *Runner) execHangs(ctx context.Context, id string) error {
	r.mu.Lock()
	left := r.left[id]
	r.mu.Unlock()
	if left == "" {
		return nil
	}
	if state, err := r.cli.ContainerExecInspect(ctx, left); err == nil && state.Running {
		return errors.New("one of before still hangs there: reboot this machine")
	}
	r.mu.Lock()
	delete(r.left, id)
	r.mu.Unlock()
	return nil
}

func (r *Runner) exec(ctx context.Context, id string, cmd []string) (string, error) {
	made, err := r.cli.ContainerExecCreate(ctx, id, container.ExecOptions{Cmd: cmd, AttachStdout: true, AttachStderr: true})
	if err != nil {
		return "", err
	}
	defer func() {
		if ctx.Err() != nil { // it may run, whether Docker had the time to say so or not
			r.mu.Lock()
			r.left[id] = made.ID
			r.mu.Unlock()
		}
	}()
	stream, err := r.cli.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		return "", err
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, stream.Close)() // the hijacked connection knows nothing of ctx
	out := &engine.Printed{}
	_, err = stdcopy.StdCopy(out, out, stream.Reader)
	if ctx.Err() != nil {
		return out.String(), ctx.Err()
	}
	if err != nil {
		return out.String(), err
	}
	state, err := r.cli.ContainerExecInspect(ctx, made.ID)
	if err == nil && state.ExitCode != 0 {
		err = errors.New(exitOf(state.ExitCode, false, "").Reason)
	}
	return out.String(), err
}
