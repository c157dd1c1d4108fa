package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"
)

// Pull fetches ref from its registry. tell, if not nil, is called with each layer's short name and how many of its bytes
// have come; -1 is all of them. What was fetched of an image that does not become whole is Docker's to clear away.
func (r *Runner) Pull(ctx context.Context, ref string, tell func(layer string, bytes int64)) error {
	if r.clientErr != nil {
		return r.explain(r.clientErr)
	}
	stream, err := r.cli.ImagePull(ctx, ref, image.PullOptions{})
	if err != nil {
		return r.pullFault(ref, err)
	}
	defer stream.Close()
	err = readNews(ctx, stream, func(n news) {
		if tell == nil {
			return
		}
		switch n.Status {
		case "Downloading":
			tell(n.ID, n.Progress.Current)
		case "Verifying Checksum", "Download complete", "Extracting", "Pull complete", "Already exists":
			tell(n.ID, -1)
		}
	})
	if err != nil {
		return r.pullFault(ref, err)
	}
	return nil
}

// pullFault says what to do also of a fault that nobody foresaw: registries have their own words.
func (r *Runner) pullFault(ref string, err error) error {
	told := r.explainPull(err)
	if told.Error() == err.Error() {
		told = fmt.Errorf("%w: nothing half-done is kept; run the same command again", err)
	}
	return fmt.Errorf("fetching %s: %w", ref, told)
}

// ImageID is the id by which Docker knows ref; fs.ErrNotExist if it has no such image.
func (r *Runner) ImageID(ctx context.Context, ref string) (string, error) {
	if r.clientErr != nil {
		return "", r.explain(r.clientErr)
	}
	got, err := r.cli.ImageInspect(ctx, ref)
	if cerrdefs.IsNotFound(err) {
		return "", fmt.Errorf("image %s: %w", ref, fs.ErrNotExist)
	}
	if err != nil {
		return "", fmt.Errorf("inspecting image %s: %w", ref, r.explain(err))
	}
	return got.ID, nil
}

// Tag gives an image a further name; another image that had it loses it.
func (r *Runner) Tag(ctx context.Context, id, ref string) error {
	if err := r.cli.ImageTag(ctx, id, ref); err != nil {
		return fmt.Errorf("naming image %s: %w", ref, r.explain(err))
	}
	return nil
}

// Build makes an image named tag of a folder in tar form. It has its name when it is whole, and not before.
func (r *Runner) Build(ctx context.Context, folder io.Reader, tag string, args map[string]string, tell func(line string)) error {
	if r.clientErr != nil {
		return r.explain(r.clientErr)
	}
	values := map[string]*string{}
	for name, value := range args {
		values[name] = &value
	}
	answer, err := r.cli.ImageBuild(ctx, folder, build.ImageBuildOptions{
		Tags: []string{tag}, BuildArgs: values, Remove: true, ForceRemove: true, Version: build.BuilderV1,
	})
	if err != nil {
		return r.explainPull(err)
	}
	defer answer.Body.Close()
	err = readNews(ctx, answer.Body, func(n news) {
		// What a step writes to its error stream comes in red.
		if line := strings.TrimSpace(colour.ReplaceAllString(n.Stream, "")); line != "" {
			tell(line)
		}
	})
	if err != nil {
		return r.explainPull(err)
	}
	return nil
}

var colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// news is one line of what Docker tells of a long act.
type news struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	Stream   string `json:"stream"`
	Error    string `json:"error"`
	Progress struct {
		Current int64 `json:"current"`
	} `json:"progressDetail"`
}

// readNews reads to the end, which alone says that the act is done; a fault comes as news among the others.
func readNews(ctx context.Context, stream io.Reader, tell func(news)) error {
	lines := json.NewDecoder(stream)
	for {
		var n news
		err := lines.Decode(&n)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading what Docker tells: %w", err)
		case n.Error != "":
			return errors.New(n.Error)
		}
		tell(n)
	}
}

// explainPull adds the way out to what goes wrong between Docker and a registry. Docker tells it by text alone.
func (r *Runner) explainPull(err error) error {
	text := strings.ToLower(err.Error())
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(text, part) {
				return true
			}
		}
		return false
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case has("no space left on device"):
		return fmt.Errorf("docker's disk is full: %w: make room there ('docker system df' shows what takes it) and try again; nothing half-done is kept", err)
	case has("verification failed for digest", "digest mismatch", "unexpected commit digest"):
		return fmt.Errorf("the registry gave other bytes than the digest stands for: %w: nothing of it is kept; do not use it, and tell whoever runs that registry", err)
	case has("manifest unknown", "not found"):
		return fmt.Errorf("%w: check the image's name and digest", err)
	case has("unexpected eof", "connection reset", "connection refused", "i/o timeout", "tls handshake timeout", "no such host", "short read", "eof"):
		return fmt.Errorf("the connection to the registry broke off, also when Docker tried again: %w: nothing half-done is kept; run the same command again", err)
	}
	return r.explain(err)
}
