package appliance_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"viiwork/appliance"
	"viiwork/appliance/config"
)

// loner is what replaces the program of a node that is a process of its own: by nothing but another word for its version,
// which it keeps on its disk, for it may be killed at any moment.
type loner struct {
	dir   string
	runs  string
	good  time.Time // when its trial ends, if it is on trial
	stop  func()
	again atomic.Bool // it is to be started anew
}

func versionFile(dir string) string { return filepath.Join(dir, "version") }

// readVersion is the version that is in place.
func readVersion(dir string) string {
	text, err := os.ReadFile(versionFile(dir))
	if err != nil {
		return "v1.0.0"
	}
	return string(text)
}

// playMate runs a node of a fleet by its configuration, and anew when it wants that, until ctx ends.
func playMate(ctx context.Context, path string) error {
	cfg, err := config.Load(path, os.Environ())
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	m := &loner{dir: filepath.Dir(path), runs: readVersion(filepath.Dir(path)), stop: stop}
	if m.runs != "v1.0.0" {
		m.good = time.Now().Add(time.Second)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	node, err := appliance.New(cfg, appliance.Options{
		Version: m.runs, Installer: m, Restarted: true, Lookout: 100 * time.Millisecond, Log: log, Ready: func(addrs ...string) { fmt.Println("http://" + addrs[0]) },
	})
	if err != nil {
		return err
	}
	if err := node.Run(ctx); err != nil || !m.again.Load() {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, []string{self, path}, os.Environ())
}

func (m *loner) Newest(context.Context) (string, error) { return m.runs, nil }

func (m *loner) Install(_ context.Context, o appliance.InstallOrder) error {
	next := versionFile(m.dir) + ".next"
	if err := os.WriteFile(next, []byte(o.Version), 0o600); err != nil {
		return err
	}
	return os.Rename(next, versionFile(m.dir))
}

func (m *loner) Restart(context.Context) error {
	m.again.Store(true)
	m.stop()
	return nil
}

func (m *loner) Installed() (is appliance.Installed) {
	if readVersion(m.dir) != m.runs || time.Now().Before(m.good) {
		is.Trial = "on trial"
	}
	return is
}
