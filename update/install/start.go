package install

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// StartJudge runs the previous version's program as the judge of what is on trial, if none is at it: in a session of its
// own, so that neither the end of the node nor that of a terminal ends it. What it says goes to judge.log. Args are its
// command line.
func (v *Versions) StartJudge(environ []string, args ...string) error {
	s, err := v.State()
	if err != nil || s.Trial == nil || v.held(fileJudge) {
		return err
	}
	log, err := openPlain(v.at(fileJudgeLog), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("starting the judge: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(v.Program(s.Trial.Previous), args...)
	cmd.Dir, cmd.Env = "/", withoutManagers(environ)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the judge: %w", err)
	}
	go func() { _ = cmd.Wait() }() // it outlives us, or its remains must not stay
	return nil
}

// withoutManagers leaves out what a service manager told this process alone.
func withoutManagers(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return name == "NOTIFY_SOCKET" || name == "INVOCATION_ID" || strings.HasPrefix(name, "WATCHDOG_") || strings.HasPrefix(name, "LISTEN_")
	})
}
