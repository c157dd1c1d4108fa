package gpu

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"viiwork/engine"
)

// Run runs a program and returns what it printed, on both streams, also when it failed: nvidia-smi tells its faults on
// standard output. A program that is not there is [exec.ErrNotFound].
type Run func(ctx context.Context, name string, args ...string) ([]byte, error)

const (
	runTimeout = 20 * time.Second // a lost card can make nvidia-smi hang
	killGrace  = 2 * time.Second  // after that the kernel itself does not let go of it
)

// RunUnder is the Run of the machine under root. It keeps in mind which programs could not even be killed, as they hang
// inside a driver, and runs those no second time while they do.
func RunUnder(root string) Run {
	r := &runner{root: filepath.Clean(root), held: map[string]bool{}}
	return r.run
}

type runner struct {
	root string

	mu   sync.Mutex
	held map[string]bool // programs that hang
}

func (r *runner) run(ctx context.Context, name string, args ...string) ([]byte, error) {
	path, err := r.find(name)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	held := r.held[path]
	r.mu.Unlock()
	if held {
		return nil, fmt.Errorf("running %s: it hangs in the driver since an earlier call: reboot this machine", name)
	}
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = killGrace / 2
	out := &engine.Printed{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return r.await(ctx, path, cmd, out)
}

// await leaves a program behind that a SIGKILL does not end; the goroutine that waits for it ends with it.
func (r *runner) await(ctx context.Context, path string, cmd *exec.Cmd, out *engine.Printed) ([]byte, error) {
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.held, path)
		ended <- err
	}()
	select {
	case err := <-ended:
		return []byte(out.String()), err
	case <-ctx.Done():
	}
	grace := time.NewTimer(killGrace)
	defer grace.Stop()
	select {
	case err := <-ended:
		return []byte(out.String()), err
	case <-grace.C:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case err := <-ended: // it ended just now, and is not to be held for ever
		return []byte(out.String()), err
	default:
	}
	r.held[path] = true
	return nil, fmt.Errorf("running %s: it does not end: %w", path, ctx.Err())
}

// find looks a program up: by its path, or by its name on PATH; under another root in the folders of system programs.
func (r *runner) find(name string) (string, error) {
	if r.root == "/" {
		return exec.LookPath(name)
	}
	places := []string{name}
	if !filepath.IsAbs(name) {
		places = []string{"usr/bin/" + name, "usr/sbin/" + name}
	}
	for _, place := range places {
		path := filepath.Join(r.root, place)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return filepath.Abs(path)
		}
	}
	return "", fmt.Errorf("finding %s under %s: %w", name, r.root, exec.ErrNotFound)
}
