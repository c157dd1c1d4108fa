package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"viiwork/engine"
)

// Config says whose containers a Runner starts.
type Config struct {
	Host     string // Docker's address, as in DOCKER_HOST; "" = that variable, or the default socket
	Node     string // the node's name, for container names
	StateDir string // absolute; tells the containers of two nodes on one machine apart, and survives a renamed node
	UID, GID int    // who the engines run as: the node itself, so that both may use the slot folder, 0700
	Log      *slog.Logger
}

// Runner starts and finds the containers of one node.
type Runner struct {
	cfg       Config
	state     string // digest of StateDir
	cli       *client.Client
	clientErr error // an address that cannot be one; told at the first use

	mu   sync.Mutex
	left map[string]string // by container: the program that was left behind in it, see Exec
}

var _ engine.Runner = (*Runner)(nil)

// New builds a Runner. It does not connect.
func New(cfg Config) *Runner {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if cfg.Host != "" {
		opts = append(opts, client.WithHost(cfg.Host))
	}
	r := &Runner{cfg: cfg, left: map[string]string{}}
	sum := sha256.Sum256([]byte(filepath.Clean(cfg.StateDir)))
	r.state = hex.EncodeToString(sum[:6])
	r.cli, r.clientErr = client.NewClientWithOpts(opts...)
	return r
}

// Close drops the idle connections to Docker. Containers go on.
func (r *Runner) Close() error {
	if r.cli == nil {
		return nil
	}
	return r.cli.Close()
}

// Find lists the running containers of this node. Those that have stopped, and what a probe left behind, are removed.
// It is for the time before the first Start: a container that is just being made would count as stopped.
func (r *Runner) Find(ctx context.Context) ([]engine.Process, error) {
	if r.clientErr != nil {
		return nil, r.explain(r.clientErr)
	}
	list, err := r.cli.ContainerList(ctx, container.ListOptions{
		All:     true,
		Filters: filters.NewArgs(filters.Arg("label", labelState+"="+r.state)),
	})
	if err != nil {
		return nil, fmt.Errorf("listing engine containers: %w", r.explain(err))
	}
	var found []engine.Process
	for _, c := range list {
		alive := c.State == container.StateRunning || c.State == container.StatePaused
		if !alive || c.Labels[labelBackend] == "" {
			r.removeLeftover(ctx, c.ID)
			continue
		}
		p, err := r.process(ctx, c.ID)
		if cerrdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("inspecting container %s: %w", short(c.ID), r.explain(err))
		}
		found = append(found, p)
	}
	return found, nil
}

func (r *Runner) removeLeftover(ctx context.Context, id string) {
	err := r.cli.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !cerrdefs.IsNotFound(err) {
		r.cfg.Log.Warn("a leftover container could not be removed", "container", short(id), "error", err)
	}
}

// Start creates and starts the container of a backend. A start that fails leaves no container behind.
func (r *Runner) Start(ctx context.Context, spec engine.Spec) (engine.Process, error) {
	h, err := r.host(ctx, spec.Model.Image)
	if err != nil {
		return nil, fmt.Errorf("starting backend %s: %w", spec.Backend, err)
	}
	if spec.Model.Accel == engine.AccelROCm && len(spec.GPUs) > 0 {
		if h.groups, err = cardGroups("/dev"); err != nil {
			return nil, fmt.Errorf("starting backend %s: %w", spec.Backend, err)
		}
	}
	cfg, hostCfg := backendSpec(spec, h)
	id, err := r.create(ctx, cfg, hostCfg, containerName(r.cfg.Node, spec.Backend))
	if err != nil {
		return nil, fmt.Errorf("starting backend %s: %w", spec.Backend, err)
	}
	err = r.cli.ContainerStart(ctx, id, container.StartOptions{})
	var p *process
	if err == nil {
		p, err = r.process(ctx, id)
	}
	if err != nil {
		r.removeLeftover(context.WithoutCancel(ctx), id)
		return nil, fmt.Errorf("starting backend %s: %w", spec.Backend, r.explain(err))
	}
	return p, nil
}

// host reads what a specification needs of the image, and finds out on the way whether there is one.
func (r *Runner) host(ctx context.Context, image string) (host, error) {
	if r.clientErr != nil {
		return host{}, r.explain(r.clientErr)
	}
	got, err := r.cli.ImageInspect(ctx, image)
	if cerrdefs.IsNotFound(err) {
		return host{}, missingImage(image)
	}
	if err != nil {
		return host{}, fmt.Errorf("inspecting image %s: %w", image, r.explain(err))
	}
	h := host{
		user:   r.user(ctx),
		labels: map[string]string{labelNode: r.cfg.Node + "-" + r.state, labelState: r.state},
	}
	if got.Config != nil {
		h.imageEnv = got.Config.Env
	}
	return h, nil
}

// user is who engines run as: the node, as Docker sees it. Where Docker runs without rights of its own (rootless), the user
// it belongs to is 0 in its containers, and every other number is somebody who may read nothing of the node's.
func (r *Runner) user(ctx context.Context) string {
	if info, err := r.cli.Info(ctx); err == nil && slices.Contains(info.SecurityOptions, "name=rootless") {
		return "0:0"
	}
	return fmt.Sprintf("%d:%d", r.cfg.UID, r.cfg.GID)
}

// create makes the container; one of ours that stopped under the same name is replaced, anything else is left alone.
func (r *Runner) create(ctx context.Context, cfg *container.Config, hostCfg *container.HostConfig, name string) (string, error) {
	made, err := r.cli.ContainerCreate(ctx, cfg, hostCfg, nil, nil, name)
	if cerrdefs.IsConflict(err) {
		if err := r.clearName(ctx, name); err != nil {
			return "", err
		}
		made, err = r.cli.ContainerCreate(ctx, cfg, hostCfg, nil, nil, name)
	}
	if err != nil {
		return "", fmt.Errorf("creating container %s: %w", name, r.explain(err))
	}
	for _, warning := range made.Warnings {
		r.cfg.Log.Debug("docker warns", "container", name, "warning", warning)
	}
	return made.ID, nil
}

func (r *Runner) clearName(ctx context.Context, name string) error {
	c, err := r.cli.ContainerInspect(ctx, name)
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("inspecting container %s: %w", name, r.explain(err))
	}
	if c.Config == nil || c.Config.Labels[labelState] != r.state {
		return fmt.Errorf("a container named %s (%s) exists already and is not this node's: rename or remove it, or change node.name",
			name, short(c.ID))
	}
	if c.State != nil && c.State.Running {
		return fmt.Errorf("container %s of this backend runs already: restart the node to take it over", name)
	}
	r.removeLeftover(ctx, c.ID)
	return nil
}

func short(id string) string {
	if len(id) > 12 {
		return id[:12]
	}
	return id
}
