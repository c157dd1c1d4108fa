package setup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"viiwork/appliance/config"
	"viiwork/engine/docker"
	"viiwork/engine/native"
	"viiwork/tsnode"
)

// Uninstall is what is known of a node that is to leave its machine.
type Uninstall struct {
	Machine    Machine
	ConfigPath string
	Config     *config.Config
	Purge      bool // the configuration goes as well
	Run        Run
	Running    func(ctx context.Context) bool // whether the node answers
	Log        *slog.Logger                   // nil = silent
}

// Removal is one thing that goes.
type Removal struct {
	What string
	do   func(ctx context.Context) error
}

// Leave is what an uninstall is going to do.
type Leave struct {
	Goes   []Removal // in this order
	Stays  []string  // with the reason
	Faults []string  // what could not be looked at
}

// stopPatience is how long a node may take to end beyond its drain.
const stopPatience = 30 * time.Second

// Survey looks for everything that viiwork made on this machine, and changes nothing. It finds files by where they are
// written and by their marker, containers by their label, processes by their records; what looks otherwise stays.
func (u Uninstall) Survey(ctx context.Context) Leave {
	if u.Log == nil {
		u.Log = slog.New(slog.DiscardHandler)
	}
	var l Leave
	u.service(&l)
	u.engines(ctx, &l)
	u.device(&l)
	u.state(&l)
	u.programs(&l)
	u.settings(&l)
	l.Stays = append(l.Stays, u.Config.ModelsDir+": models are never touched")
	return l
}

// Remove takes away what Survey found. A fault ends nothing but its own step, save that a node which goes on running keeps
// its engines, its device and its state. Said is told of each step and how it ended.
func (l Leave) Remove(ctx context.Context, said func(what string, err error)) error {
	failed := 0
	for _, r := range l.Goes {
		err := r.do(ctx)
		said(r.What, err)
		if errors.Is(err, errStillRuns) {
			return err
		}
		if err != nil {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d steps failed: do as they say and run this again", failed, len(l.Goes))
	}
	return nil
}

var errStillRuns = errors.New("the node still runs: end it (Ctrl-C, or stop what started it) and run this again")

// service finds what starts the node. It is stopped before anything else goes, and the node has ended before the rest does.
func (u Uninstall) service(l *Leave) {
	var after []Removal
	for _, m := range u.services() {
		path := m.Layout().Service
		text, err := Read(m.at(path))
		if err != nil || !isOurs(text) {
			l.Stays = append(l.Stays, path+": not written by viiwork")
			continue
		}
		after = append(after, u.file(path))
		if m.Manager == Systemd && !m.there("/run/systemd/system") {
			continue
		}
		l.Goes = append(l.Goes, Removal{"the service of " + path, func(ctx context.Context) error { return disable(ctx, m, u.Run) }})
		if m.Manager == Systemd {
			after = append(after, Removal{"what systemd remembers of it", func(ctx context.Context) error {
				if !m.User {
					_ = os.Remove(m.at("/run/viiwork")) // it is kept over restarts; whatever is in it is not ours to remove
				}
				return m.steps(ctx, u.Run, "systemctl status", m.systemctl("daemon-reload"))
			}})
		}
	}
	told := len(l.Goes) > 0
	if u.there(u.Config.Node.StateDir) {
		l.Goes = append(l.Goes, Removal{"the node itself, if it runs", func(ctx context.Context) error { return u.awaitEnd(ctx, told) }})
	}
	l.Goes = append(l.Goes, after...)
}

// awaitEnd waits until the node has drained, if somebody told it to.
func (u Uninstall) awaitEnd(ctx context.Context, told bool) error {
	ctx, cancel := context.WithTimeout(ctx, u.Config.Node.Drain+stopPatience)
	defer cancel()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for u.Running(ctx) {
		if !told {
			return errStillRuns
		}
		select {
		case <-ctx.Done():
			return errStillRuns
		case <-look.C:
		}
	}
	return nil
}

// services are this machine as each manager that has a file here sees it: the node may have been moved from one to another.
func (u Uninstall) services() []Machine {
	var found []Machine
	for _, manager := range []Manager{Systemd, Launchd, Compose} {
		m := u.Machine
		m.Manager = manager
		if path := m.Layout().Service; path != "" && m.there(path) {
			found = append(found, m)
		}
	}
	return found
}

// engines finds the containers and processes that run models.
func (u Uninstall) engines(ctx context.Context, l *Leave) {
	state := u.Machine.at(u.Config.Node.StateDir)
	boxes := docker.New(docker.Config{Node: u.Config.Node.Name, StateDir: state, Log: u.Log})
	ours, err := boxes.Ours(ctx)
	if err != nil && slices.ContainsFunc(u.Config.Models, func(m config.Model) bool { return m.Llamacpp.Runner == "docker" }) {
		l.Faults = append(l.Faults, err.Error())
	}
	for _, c := range ours {
		l.Goes = append(l.Goes, Removal{"container " + c.Name, func(ctx context.Context) error { return boxes.Remove(ctx, c) }})
		stays := fmt.Sprintf("image %s: 'docker rmi %s' removes it", c.Image, c.Image)
		if !slices.Contains(l.Stays, stays) {
			l.Stays = append(l.Stays, stays)
		}
	}
	processes, err := native.New(native.Config{Node: u.Config.Node.Name, StateDir: state, Log: u.Log}).Recorded(ctx)
	if err != nil {
		l.Faults = append(l.Faults, err.Error())
	}
	for _, p := range processes {
		what := fmt.Sprintf("engine of %s, process %d", p.Record().Backend, p.Record().PID)
		l.Goes = append(l.Goes, Removal{what, p.Stop})
	}
}

// device finds this machine's own device on a tailnet.
func (u Uninstall) device(l *Leave) {
	cfg, state := u.Config, u.Machine.at(u.Config.Node.StateDir)
	if !tsnode.HasDevice(state) {
		return
	}
	l.Goes = append(l.Goes, Removal{"the device " + cfg.Mesh.Tailnet.Hostname + " on its tailnet", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		return tsnode.Logout(ctx, tsnode.Config{
			Name: cfg.Node.Name, StateDir: state, Hostname: cfg.Mesh.Tailnet.Hostname, ControlURL: cfg.Mesh.Tailnet.ControlURL, Log: u.Log,
		})
	}})
}

// programs finds the versions of this program that a service ran.
func (u Uninstall) programs(l *Leave) {
	if !u.Machine.User && u.Machine.onPathIsOurs() {
		l.Goes = append(l.Goes, u.file(command))
	} else if !u.Machine.User && u.there(command) {
		l.Stays = append(l.Stays, command+": not written by viiwork")
	}
	prefix := u.Machine.Layout().Prefix
	versions := filepath.Join(prefix, "versions")
	entries, err := os.ReadDir(u.Machine.at(versions))
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(versions, e.Name())
		program := filepath.Join(path, "viiwork")
		cutOff := strings.HasPrefix(e.Name(), ".new-") // by an update that did not end
		if e.IsDir() && (!cutOff || u.there(program)) {
			path = program
		}
		isLink := e.Type()&os.ModeSymlink != 0 && (e.Name() == "current" || e.Name() == "previous")
		isRecord := e.Type().IsRegular() && slices.Contains(ofUpdates, e.Name())
		if e.IsDir() && u.there(path) || isLink || isRecord || cutOff {
			l.Goes = append(l.Goes, u.file(path))
		} else {
			l.Stays = append(l.Stays, path+": not written by viiwork")
		}
	}
}

// ofUpdates is what updates keep beside the versions.
var ofUpdates = []string{"state.json", "state.lock", "lock", "judge", "judge.log"}

// settings finds the configuration and what lies beside it.
func (u Uninstall) settings(l *Leave) {
	env := besides(u.ConfigPath)
	if text, err := Read(u.Machine.at(env)); err == nil && isOurs(text) {
		l.Goes = append(l.Goes, u.file(env))
	} else if err == nil {
		l.Stays = append(l.Stays, env+": not written by viiwork")
	}
	for _, old := range append(u.backups(env), leftovers(u.Machine.at(env))...) { // old secrets go with the new
		l.Goes = append(l.Goes, u.file(strings.TrimPrefix(old, filepath.Clean("/"+u.Machine.Root))))
	}
	for _, path := range append([]string{u.ConfigPath}, u.backups(u.ConfigPath)...) {
		switch {
		case !u.there(path):
		case u.Purge:
			l.Goes = append(l.Goes, u.file(path))
		default:
			l.Stays = append(l.Stays, path+": --purge removes it")
		}
	}
}

// backups are the old files that Apply kept beside path.
func (u Uninstall) backups(path string) []string {
	dir, base := filepath.Split(path)
	entries, _ := os.ReadDir(u.Machine.at(dir))
	var found []string
	for _, e := range entries {
		if len(e.Name()) > len(base) && e.Name()[:len(base)] == base && backupName.MatchString(e.Name()[len(base):]) {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	return found
}

func (u Uninstall) there(path string) bool {
	_, err := os.Lstat(u.Machine.at(path))
	return err == nil
}
