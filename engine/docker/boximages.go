package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"golang.org/x/sys/unix"
)

// LoadImage hands an archive to Docker, in the form of 'docker save'. What came of it is found by the name that the
// archive gives it: ids differ between Docker's kinds of store.
func (r *Runner) LoadImage(ctx context.Context, archive io.Reader) error {
	if r.clientErr != nil {
		return r.explain(r.clientErr)
	}
	answer, err := r.cli.ImageLoad(ctx, archive)
	if err != nil {
		return fmt.Errorf("loading an image: %w", r.explainPull(err))
	}
	defer answer.Body.Close()
	if err := readNews(ctx, answer.Body, func(news) {}); err != nil {
		return fmt.Errorf("loading an image: %w", r.explainPull(err))
	}
	return nil
}

// ImageContent is the id of an image, and the digests of the archives that its layers are made of; fs.ErrNotExist if there
// is none.
func (r *Runner) ImageContent(ctx context.Context, ref string) (id string, content []string, err error) {
	if r.clientErr != nil {
		return "", nil, r.explain(r.clientErr)
	}
	got, err := r.cli.ImageInspect(ctx, ref)
	if cerrdefs.IsNotFound(err) {
		return "", nil, fmt.Errorf("image %s: %w", ref, fs.ErrNotExist)
	}
	if err != nil {
		return "", nil, fmt.Errorf("inspecting image %s: %w", ref, r.explain(err))
	}
	return got.ID, got.RootFS.Layers, nil
}

// ImageConfig says what runs in an image, as JSON; "null" if nothing does.
func (r *Runner) ImageConfig(ctx context.Context, ref string) ([]byte, error) {
	if r.clientErr != nil {
		return nil, r.explain(r.clientErr)
	}
	got, err := r.cli.ImageInspect(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("inspecting image %s: %w", ref, r.explain(err))
	}
	return json.Marshal(got.Config)
}

// SaveImage reads an image as an archive in the form of 'docker save', and tells how many bytes its layers have, about. It
// begins when Docker has written all of it to its own disk, which takes a while.
func (r *Runner) SaveImage(ctx context.Context, id string) (archive io.ReadCloser, size int64, err error) {
	if r.clientErr != nil {
		return nil, 0, r.explain(r.clientErr)
	}
	got, err := r.cli.ImageInspect(ctx, id)
	if cerrdefs.IsNotFound(err) {
		return nil, 0, fmt.Errorf("image %s: %w", id, fs.ErrNotExist)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("inspecting image %s: %w", id, r.explain(err))
	}
	archive, err = r.cli.ImageSave(ctx, []string{id})
	if err != nil {
		return nil, 0, fmt.Errorf("saving image %s: %w", id, r.explain(err))
	}
	return archive, got.Size, nil
}

// Free is how many bytes may be written where Docker keeps images. A disk that is another machine's is an error.
func (r *Runner) Free(ctx context.Context) (int64, error) {
	if r.clientErr != nil {
		return 0, r.explain(r.clientErr)
	}
	if !strings.HasPrefix(r.cli.DaemonHost(), "unix://") {
		return 0, errors.New("docker is on another machine")
	}
	told, err := r.cli.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("asking where images are kept: %w", r.explain(err))
	}
	var at unix.Statfs_t
	if err := unix.Statfs(told.DockerRootDir, &at); err != nil {
		return 0, fmt.Errorf("asking how much of %s is free: %w", told.DockerRootDir, err)
	}
	return int64(at.Bavail) * int64(at.Bsize), nil
}

// ForgetImage takes a name from an image, and what nothing else holds of it. One that a container uses is left alone.
func (r *Runner) ForgetImage(ctx context.Context, ref string) error {
	_, err := r.cli.ImageRemove(ctx, ref, image.RemoveOptions{PruneChildren: true})
	if err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) {
		return fmt.Errorf("removing image %s: %w", ref, r.explain(err))
	}
	return nil
}
