package tsnode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"tailscale.com/ipn"
	"tailscale.com/tsnet"
)

// HasDevice reports whether StateDir holds the state of a device of a tailnet.
func HasDevice(stateDir string) bool {
	_, err := os.Stat(deviceState(stateDir))
	return err == nil
}

func deviceState(stateDir string) string {
	return filepath.Join(stateDir, "tsnode", "tailscaled.state")
}

// Logout takes this node's device off its tailnet, for good: its keys are worth nothing afterwards, and the tailnet
// forgets it, at once or as its control server sees fit. Without a device it does nothing. No node may run on StateDir.
func Logout(ctx context.Context, cfg Config) error {
	if _, err := os.Stat(deviceState(cfg.StateDir)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	cfg.Network = Tailnet
	if err := cfg.check(); err != nil {
		return fmt.Errorf("logging the device out: %w", err)
	}
	dir := filepath.Join(cfg.StateDir, "tsnode")
	lock, err := lockDir(dir)
	if err != nil {
		return fmt.Errorf("logging the device out: %w", err)
	}
	defer lock.release()
	t := &tailnet{cfg: cfg, dir: dir}
	if err := t.logout(ctx); err != nil {
		return fmt.Errorf("logging the device out: %s: remove %s in the tailnet's admin console", t.scrub(err.Error()), cfg.Hostname)
	}
	return nil
}

// logout comes up just far enough to say goodbye. No auth key is given: a device that is not logged in shall not be now.
func (t *tailnet) logout(ctx context.Context) error {
	prepareProcess(ctx, t.cfg, t.dir)
	server := &tsnet.Server{
		Dir: t.dir, Hostname: t.cfg.Hostname, ControlURL: t.cfg.ControlURL,
		UserLogf: func(format string, args ...any) { t.cfg.Log.Debug(t.scrub(fmt.Sprintf(format, args...))) },
	}
	if err := server.Start(); err != nil {
		return err
	}
	defer server.Close()
	client, err := server.LocalClient()
	if err != nil {
		return err
	}
	for {
		s, err := client.Status(ctx)
		if err != nil {
			return err
		}
		switch s.BackendState {
		case ipn.Running.String(), ipn.Stopped.String(), ipn.Starting.String(), ipn.NeedsMachineAuth.String():
			return client.Logout(ctx)
		case ipn.NeedsLogin.String():
			return nil
		}
		sleep(ctx, 100*time.Millisecond)
	}
}
