package docker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
)

// Home is the container that this process itself runs in, as Docker describes it. Engines are its neighbours, not its
// children: the paths and addresses they are given are the machine's.
type Home struct {
	ID, Name    string
	HostNetwork bool   // it shares the machine's network: engines' ports on 127.0.0.1 can be reached
	Image       string // its id
	ImageName   string // the one that it was made from, at that time
	Restart     string // what Docker does when it ends
	Passing     bool   // and whether it is removed then
	Labels      map[string]string
	Binds       []string // paths and named volumes of the machine, as [Box] has them; what goes with the container is not among them
	mounts      []container.MountPoint
}

// Home describes the container that this process runs in; nil if it runs in none, or in one that is not this Docker's.
func (r *Runner) Home(ctx context.Context) (*Home, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, nil // no Linux: in no container either
	}
	id := containerID(string(text))
	if id == "" {
		return nil, nil
	}
	if r.clientErr != nil {
		return nil, r.explain(r.clientErr)
	}
	c, err := r.cli.ContainerInspect(ctx, id)
	if cerrdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("inspecting the container of this node: %w", r.explain(err))
	}
	return homeOf(c), nil
}

func homeOf(c container.InspectResponse) *Home {
	h := &Home{mounts: c.Mounts}
	if c.ContainerJSONBase != nil {
		h.ID, h.Name, h.Image = c.ID, strings.TrimPrefix(c.Name, "/"), c.Image
		h.HostNetwork = c.HostConfig != nil && c.HostConfig.NetworkMode.IsHost()
		if c.HostConfig != nil {
			h.Restart, h.Passing = string(c.HostConfig.RestartPolicy.Name), c.HostConfig.AutoRemove
		}
	}
	if c.Config != nil {
		h.ImageName, h.Labels = c.Config.Image, c.Config.Labels
	}
	for _, m := range c.Mounts {
		from := m.Source
		switch {
		case m.Type == mount.TypeVolume && !anonymous.MatchString(m.Name):
			from = m.Name
		case m.Type != mount.TypeBind:
			continue
		}
		bind := from + ":" + m.Destination
		if !m.RW {
			bind += ":ro"
		}
		h.Binds = append(h.Binds, bind)
	}
	slices.Sort(h.Binds)
	return h
}

// anonymous is the name of a volume that nobody gave one.
var anonymous = regexp.MustCompile(`^([0-9a-f]{64})?$`)

// At says where path, absolute, is on the machine: "" = nowhere, it is in the container alone.
func (h *Home) At(path string) string {
	best := container.MountPoint{}
	for _, m := range h.mounts {
		if below(path, m.Destination) && len(m.Destination) > len(best.Destination) {
			best = m
		}
	}
	if best.Source == "" {
		return ""
	}
	rest, err := filepath.Rel(best.Destination, path)
	if err != nil {
		return ""
	}
	return filepath.Join(best.Source, rest)
}

func below(path, dir string) bool {
	rest, err := filepath.Rel(dir, path)
	return err == nil && rest != ".." && !strings.HasPrefix(rest, "../")
}

// Docker mounts files of its own into every container, from a folder named for it. With the machine's network the host name
// does not tell the container, and with cgroups of version 2 they do not either.
var ownFile = regexp.MustCompile(`/containers/([0-9a-f]{64})/\S* /etc/(?:resolv\.conf|hostname|hosts) `)

func containerID(mountinfo string) string {
	if found := ownFile.FindStringSubmatch(mountinfo); found != nil {
		return found[1]
	}
	return ""
}
