package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
)

// Box is a container in which this program itself runs, by our own rules: a node, or what puts another one in its place.
// It has a read-only root, no capabilities, and the machine's network. What its image says of environment and entry point
// holds, as far as nothing is said here. It carries none of the labels by which engines are found.
type Box struct {
	Name       string
	Image      string   // an id: a name may move
	Entrypoint []string // nil = the image's
	Args       []string
	User       string   // uid:gid
	Groups     []string // numbers
	Env        []string
	Binds      []string // "/on/the/machine:/inside" or "volume:/inside", ":ro" behind it
	Devices    []string // at the same path on both sides
	Labels     map[string]string
	Restart    string        // "unless-stopped", "on-failure", "" = never
	Grace      time.Duration // between SIGTERM and SIGKILL, where nobody says otherwise
}

// BoxState is what Docker tells of such a container.
type BoxState struct {
	ID, Name string
	Image    string // its id
	Labels   map[string]string
	Running  bool
	Started  time.Time // zero = it never was
	Starts   int       // times that Docker started it again by itself
	Exit     int       // of the last end
}

// LookAt describes a container by its name or id; fs.ErrNotExist if there is none.
func (r *Runner) LookAt(ctx context.Context, name string) (BoxState, error) {
	if r.clientErr != nil {
		return BoxState{}, r.explain(r.clientErr)
	}
	c, err := r.cli.ContainerInspect(ctx, name)
	if cerrdefs.IsNotFound(err) {
		return BoxState{}, fmt.Errorf("container %s: %w", short(name), fs.ErrNotExist)
	}
	if err != nil {
		return BoxState{}, fmt.Errorf("inspecting container %s: %w", short(name), r.explain(err))
	}
	return boxState(c), nil
}

func boxState(c container.InspectResponse) BoxState {
	s := BoxState{}
	if c.Config != nil {
		s.Labels = c.Config.Labels
	}
	if c.ContainerJSONBase == nil {
		return s
	}
	s.ID, s.Name, s.Image, s.Starts = c.ID, strings.TrimPrefix(c.Name, "/"), c.Image, c.RestartCount
	if c.State != nil {
		s.Running, s.Exit = c.State.Running || c.State.Restarting, c.State.ExitCode
		if at, err := time.Parse(time.RFC3339Nano, c.State.StartedAt); err == nil && at.Year() > 1 {
			s.Started = at
		}
	}
	return s
}

// MakeBox creates a container and starts nothing. A name that is taken is an error.
func (r *Runner) MakeBox(ctx context.Context, b Box) (id string, err error) {
	cfg, hostCfg, err := boxSpec(b)
	if err != nil {
		return "", err
	}
	made, err := r.cli.ContainerCreate(ctx, cfg, hostCfg, nil, nil, b.Name)
	if err != nil {
		return "", fmt.Errorf("creating container %s: %w", b.Name, r.explain(err))
	}
	return made.ID, nil
}

func boxSpec(b Box) (*container.Config, *container.HostConfig, error) {
	binds, err := boxMounts(b.Binds)
	if err != nil {
		return nil, nil, err
	}
	grace := int(b.Grace / time.Second)
	cfg := &container.Config{
		Image: b.Image, Entrypoint: b.Entrypoint, Cmd: b.Args, User: b.User, Env: b.Env, Labels: b.Labels, StopTimeout: &grace,
	}
	hostCfg := &container.HostConfig{
		NetworkMode: "host", GroupAdd: b.Groups, Mounts: binds,
		ReadonlyRootfs: true, CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"},
		Tmpfs:         map[string]string{"/tmp": "rw,nosuid,nodev,noexec,mode=1777"},
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyMode(b.Restart)},
		LogConfig:     container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "10m", "max-file": "2"}},
	}
	for _, path := range b.Devices {
		hostCfg.Devices = append(hostCfg.Devices, container.DeviceMapping{PathOnHost: path, PathInContainer: path, CgroupPermissions: "rwm"})
	}
	return cfg, hostCfg, nil
}

// boxMounts reads binds. As mounts, a path that is not there is an error; a bind would be made, as root's.
func boxMounts(binds []string) ([]mount.Mount, error) {
	var list []mount.Mount
	for _, b := range binds {
		half, readOnly := strings.CutSuffix(b, ":ro")
		from, to, ok := strings.Cut(half, ":")
		if !ok || from == "" || !strings.HasPrefix(to, "/") || strings.Contains(to, ":") {
			return nil, fmt.Errorf("%q is no mount of a container", b)
		}
		kind := mount.TypeBind
		if !strings.HasPrefix(from, "/") {
			kind = mount.TypeVolume
		}
		list = append(list, mount.Mount{Type: kind, Source: from, Target: to, ReadOnly: readOnly})
	}
	return list, nil
}

// StartBox starts a container; one that runs is left alone.
func (r *Runner) StartBox(ctx context.Context, id string) error {
	if err := r.cli.ContainerStart(ctx, id, container.StartOptions{}); err != nil {
		return fmt.Errorf("starting container %s: %w", short(id), r.explain(err))
	}
	return nil
}

// StopBox ends a container and waits for it; one that has ended, or is gone, is left alone.
func (r *Runner) StopBox(ctx context.Context, id string, grace time.Duration) error {
	seconds := int(grace / time.Second)
	err := r.cli.ContainerStop(ctx, id, container.StopOptions{Timeout: &seconds})
	if err != nil && !cerrdefs.IsNotFound(err) {
		return fmt.Errorf("stopping container %s: %w", short(id), r.explain(err))
	}
	return nil
}

// RenameBox gives a container another name; one that has it already keeps it.
func (r *Runner) RenameBox(ctx context.Context, id, name string) error {
	if is, err := r.LookAt(ctx, id); err != nil || is.Name == name {
		return err
	}
	if err := r.cli.ContainerRename(ctx, id, name); err != nil {
		return fmt.Errorf("naming container %s %s: %w", short(id), name, r.explain(err))
	}
	return nil
}

// RemoveBox ends and removes a container; one that is gone is no error.
func (r *Runner) RemoveBox(ctx context.Context, id string) error {
	err := r.cli.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !cerrdefs.IsNotFound(err) {
		return fmt.Errorf("removing container %s: %w", short(id), r.explain(err))
	}
	return nil
}

// TryBox runs a container to its end and returns what it printed, with an error if it ended with one. Nothing stays of it.
func (r *Runner) TryBox(ctx context.Context, b Box) (string, error) {
	if r.clientErr != nil {
		return "", r.explain(r.clientErr)
	}
	cfg, hostCfg, err := boxSpec(b)
	if err != nil {
		return "", err
	}
	hostCfg.NetworkMode, hostCfg.AutoRemove, hostCfg.RestartPolicy = "none", true, container.RestartPolicy{}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	out, err := r.throwAway(ctx, cfg, hostCfg)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("it did not end within %v", probeTimeout)
	}
	return out, err
}
