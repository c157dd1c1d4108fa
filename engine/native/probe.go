package native

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"viiwork/engine"
)

const probeTimeout = time.Minute

// Probe runs the model's program with args, kept off all cards. What was printed is returned also when the program
// ended with a fault. A process has no way to be kept off the network here: the program is the owner's own.
func (r *Runner) Probe(ctx context.Context, m engine.Model, args ...string) (string, error) {
	program, err := look(m.Binary)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = environment(engine.Spec{Model: engine.Model{Env: m.Env}})
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // a grandchild that keeps the pipe open must not hold us
	out := &engine.Printed{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return out.String(), fmt.Errorf("probing %s: %w", program, err)
	}
	return out.String(), nil
}
