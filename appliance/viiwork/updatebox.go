package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"viiwork/appliance"
	"viiwork/appliance/config"
	"viiwork/appliance/status"
	"viiwork/engine/docker"
	"viiwork/update/install"
	"viiwork/update/swap"
)

// boxes is Docker as a swap of containers sees it.
type boxes struct{ *docker.Runner }

func (b boxes) LookAt(ctx context.Context, name string) (swap.BoxState, error) {
	is, err := b.Runner.LookAt(ctx, name)
	return swap.BoxState(is), err
}

func (b boxes) MakeBox(ctx context.Context, box swap.Box) (string, error) {
	return b.Runner.MakeBox(ctx, docker.Box(box))
}

func (b boxes) TryBox(ctx context.Context, box swap.Box) (string, error) {
	return b.Runner.TryBox(ctx, docker.Box(box))
}

func swapConfig(r *docker.Runner, stateDir string) swap.Config {
	return swap.Config{StateDir: stateDir, Boxes: boxes{r}, Power: boxes{r}, Images: r}
}

// swapCommand is what a helper container runs.
func (c *cli) swapCommand() *cobra.Command {
	var stateDir string
	cmd := &cobra.Command{
		Use:    "swap",
		Short:  "put a node's container in the place of another, or take it back",
		Args:   exactly(0, takesNone),
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !filepath.IsAbs(stateDir) {
				return usageError("say --state DIR, in full")
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			r := docker.New(docker.Config{StateDir: stateDir})
			defer r.Close()
			cfg := swapConfig(r, stateDir)
			cfg.Log = slog.New(slog.NewTextHandler(c.Err, nil))
			return swap.Run(ctx, cfg)
		},
	}
	cmd.Flags().StringVar(&stateDir, "state", "", "the node's `directory` of state")
	return cmd
}

// boxed is the container that this program runs in; nil = none, or one of another Docker.
func (c *cli) boxed(ctx context.Context, cfg *config.Config) (*docker.Home, *docker.Runner, error) {
	r := docker.New(dockerOf(cfg))
	home, err := r.Home(ctx)
	if err != nil || home == nil {
		r.Close()
		return nil, nil, err
	}
	return home, r, nil
}

// updateBox updates the container that this runs in; done is false where it runs in none. A whole machine may be one too, to
// whoever made it: where its programs lie among versions, these are what is replaced.
func (c *cli) updateBox(ctx context.Context, f updateFlags) (done bool, err error) {
	if versions, _, _ := installed(); versions != nil || ofSetup() != "" {
		return false, nil
	}
	cfg, found, err := c.load()
	if err != nil {
		return false, nil // said by what comes next
	}
	home, r, err := c.boxed(ctx, cfg)
	if err != nil || home == nil {
		return err != nil, err
	}
	defer r.Close()
	path, err := filepath.Abs(found)
	if err != nil {
		return true, fmt.Errorf("finding %s: %w", found, err)
	}
	if f.rollback {
		if done, err := c.stopSwap(swap.At(cfg.Node.StateDir)); done {
			return true, err
		}
	}
	o, err := c.boxOrder(cfg, path, home)
	if err != nil {
		return true, err
	}
	o.Self.Args = nodeArgs(nodePID(ctx, o.Socket))
	o.Named, o.Watch = f.to != "", f.watch
	if f.patience > 0 {
		o.Patience = f.patience
	}
	question, unasked := fmt.Sprintf("go back from %s to the version before?", o.From), "give --yes"
	if !f.rollback {
		unasked = "give --yes, or --check to look only"
		u := &updating{c: c, flags: f, cfg: cfg, path: path, from: o.From, node: c.nodeOf(cfg)}
		if o.Release, err = u.find(ctx); err != nil || o.Release == nil {
			return true, err
		}
		question = fmt.Sprintf("replace the container %s, which runs %s, by one of %s?", home.Name, o.From, o.Release.Version())
	}
	yes, err := c.ask(ctx, question, unasked)
	if err == nil && !yes {
		err = errUnwanted
	}
	if err != nil {
		return true, err
	}
	return true, c.swap(ctx, swapConfig(r, cfg.Node.StateDir), o, f)
}

// stopSwap takes back what is on trial; done is false where nothing is.
func (c *cli) stopSwap(folder swap.Folder) (done bool, err error) {
	p, err := folder.Plan()
	if err == nil && p == nil {
		return false, nil
	}
	if err == nil {
		err = folder.Stop("a person took it back")
	}
	if err == nil {
		c.note("%s is being taken back: 'viiwork status' tells how that ends", p.Version)
	}
	return true, refusedBy(err)
}

// swap hands the order over. From then on this container may end at any moment.
func (c *cli) swap(ctx context.Context, cfg swap.Config, o swap.Order, f updateFlags) error {
	if err := swap.Begin(ctx, cfg, o); err != nil {
		return refusedBy(err)
	}
	if f.asJSON {
		to := ""
		if o.Release != nil {
			to = o.Release.Version()
		}
		return c.printJSON(updated{State: "installed", Version: to, From: o.From})
	}
	c.note("the container %s.swap puts the new one in the place of this one, and this one back if that does not hold; 'viiwork status' tells how it goes, 'docker logs -f %s.swap' each step",
		o.Self.Name, o.Self.Name)
	return nil
}

// boxOrder is what is known of the container from within it, but for what the node was started with.
func (c *cli) boxOrder(cfg *config.Config, path string, home *docker.Home) (swap.Order, error) {
	program, err := os.Executable()
	if err != nil {
		return swap.Order{}, fmt.Errorf("finding this program: %w", err)
	}
	groups, err := os.Getgroups()
	if err != nil {
		return swap.Order{}, fmt.Errorf("finding this user's groups: %w", err)
	}
	socket := appliance.SocketPath(cfg.Node.StateDir)
	if filepath.Dir(socket) != filepath.Clean(cfg.Node.StateDir) {
		return swap.Order{}, coded{exitRefused, errors.New("node.state_dir has too long a name: the node's socket does not fit into it, and would not be seen from the container beside: choose a shorter one")}
	}
	w := patience(cfg)
	o := swap.Order{
		From: thisRelease().Version, Config: path, Socket: socket, Node: cfg.Node.Name,
		Patience: w.up + w.load, Said: func(text string) { c.note("warning: %s", printable(text)) },
	}
	o.Self = swap.Self{
		ID: home.ID, Name: home.Name, Image: home.Image, ImageName: home.ImageName, Restart: home.Restart, Labels: home.Labels, Binds: home.Binds,
		HostNetwork: home.HostNetwork, Passing: home.Passing,
		UID: os.Getuid(), GID: os.Getgid(), Groups: groups, Program: program, Environ: c.Environ,
		Keep: []string{cfg.Mesh.SecretEnv, cfg.Mesh.SecretPrevEnv}, Needs: boxNeeds(c, cfg, path), Grace: cfg.Node.Drain + 15*time.Second,
	}
	for _, device := range []string{"/dev/kfd", "/dev/dri"} {
		if _, err := os.Stat(device); err == nil {
			o.Self.Devices = append(o.Self.Devices, device)
		}
	}
	return o, nil
}

// boxNeeds are the paths without which the next container could not be this node.
func boxNeeds(c *cli, cfg *config.Config, path string) []string {
	needs := []string{path, cfg.Node.StateDir}
	socket := "/var/run/docker.sock"
	if host := c.getenv("DOCKER_HOST"); host != "" {
		socket, _ = strings.CutPrefix(host, "unix://")
	}
	if filepath.IsAbs(socket) {
		needs = append(needs, socket)
	}
	if file := c.getenv("VIIWORK_MESH_SECRET_FILE"); file != "" {
		needs = append(needs, file)
	}
	for _, m := range cfg.Models {
		if m.Path != "" {
			needs = append(needs, m.Path)
		}
	}
	for i, need := range needs {
		if full, err := filepath.Abs(need); err == nil {
			needs[i] = full
		}
	}
	return needs
}

// nodePID is the process that answers at the node's socket. Without one it is the container's first.
func nodePID(ctx context.Context, socket string) int {
	if seen, err := (install.LocalNode{Socket: socket}).Look(ctx); err == nil && seen.PID > 0 {
		return seen.PID
	}
	return 1
}

// nodeArgs are those that a node was started with, its options among them. An init before it is not.
func nodeArgs(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil
	}
	words := bytes.Split(bytes.TrimSuffix(text, []byte{0}), []byte{0})
	var args []string
	for _, w := range words[1:] {
		args = append(args, string(w))
	}
	return args
}

// resumeSwap starts the helper of an update that was cut off before that began, say by the machine's power.
func (c *cli) resumeSwap(ctx context.Context, cfg *config.Config) error {
	if p, err := swap.At(cfg.Node.StateDir).Plan(); err != nil || p == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	home, r, err := c.boxed(ctx, cfg)
	if err != nil || home == nil {
		return err
	}
	defer r.Close()
	err = swap.Resume(ctx, swapConfig(r, cfg.Node.StateDir))
	if errors.Is(err, fs.ErrNotExist) { // it has removed itself since
		return nil
	}
	return err
}

// swapNews is what an owner should know of the container's updates.
func swapNews(stateDir string) []status.Warning {
	folder := swap.At(stateDir)
	p, err := folder.Plan()
	s, odd := folder.State()
	switch {
	case err != nil || odd != nil:
		return []status.Warning{{ID: "update", Text: errors.Join(err, odd).Error(), Fix: "do as it says"}}
	case p != nil:
		return []status.Warning{{ID: "update_trial", Text: planText(p),
			Fix: "the trial ends by itself; 'viiwork update --rollback' takes it back now"}}
	}
	return lastNews(s.Last)
}
