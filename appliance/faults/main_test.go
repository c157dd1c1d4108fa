//go:build linux

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

const (
	// roleEnv makes this program play another process: an engine or a node.
	roleEnv = "VIIWORK_FAULTS_ROLE"
	// apartEnv is set where the program runs in namespaces of its own.
	apartEnv = "VIIWORK_FAULTS_APART"
	// formEnv chooses the form, "full" or "short".
	formEnv = "VIIWORK_FAULTS"
)

// errApart is why there is no network of our own, nil where there is one.
var errApart = errors.New("not tried")

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		if err := play(role, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(apartEnv) == "" {
		var code int
		if code, errApart = apart(); errApart == nil {
			os.Exit(code)
		}
	} else {
		errApart = settle()
	}
	os.Exit(m.Run())
}

// apart runs this program in namespaces of its own and returns its exit status. It is process 1 there: when it ends,
// the kernel ends all others.
func apart() (code int, err error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return 0, errors.New("there is no program ip: install iproute2")
	}
	runtime.LockOSThread() // Pdeathsig is about the thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), apartEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("namespaces are refused here: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() > 0 {
			return exit.ExitCode(), nil
		}
		fmt.Fprintln(os.Stderr, "in namespaces of its own:", err)
		return 1, nil
	}
	return 0, nil
}

// settle makes the new namespaces fit to live in: processes are seen as they are numbered here, and loopback works.
func settle() error {
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping mounts to ourselves: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	return ip("link set lo up")
}

// play is what a child process does until its standard input ends.
func play(role string, args []string) error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	switch role {
	case "engine":
		return playEngine(ctx, args[0], args[1])
	case "node":
		return playNode(ctx, args[0], args[1])
	}
	return fmt.Errorf("no role %q", role)
}

func full() bool { return os.Getenv(formEnv) == "full" }
