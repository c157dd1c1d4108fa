package docker

import (
	"context"
	"fmt"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
)

// Ours is a container that this node made.
type Ours struct{ ID, Name, Image string }

// Ours lists every container of this node, running or not, and touches none.
func (r *Runner) Ours(ctx context.Context) ([]Ours, error) {
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
	var owned []Ours
	for _, c := range list {
		name := short(c.ID)
		if len(c.Names) > 0 {
			name = strings.TrimPrefix(c.Names[0], "/")
		}
		owned = append(owned, Ours{ID: c.ID, Name: name, Image: c.Image})
	}
	return owned, nil
}

// Remove ends and removes a container that Ours listed. Its label is looked at again: an id may be anybody's by now.
func (r *Runner) Remove(ctx context.Context, c Ours) error {
	got, err := r.cli.ContainerInspect(ctx, c.ID)
	if err == nil && (got.Config == nil || got.Config.Labels[labelState] != r.state) {
		return fmt.Errorf("container %s is not this node's", c.Name)
	}
	if err == nil {
		err = r.cli.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
	}
	if err != nil && !cerrdefs.IsNotFound(err) {
		return fmt.Errorf("removing container %s: %w", c.Name, r.explain(err))
	}
	return nil
}
