package swap_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"viiwork/update"
	"viiwork/update/build"
	"viiwork/update/install"
	"viiwork/update/swap"
	"viiwork/update/updatetest"
)

// released is a version as its publisher has signed it, with an image.
func released(t *testing.T, version string) (*update.Verified, update.Image) {
	t.Helper()
	const commit, publisher = "0123456789abcdef0123456789abcdef01234567", "github.com/owner/viiwork/.github/workflows/release.yml"
	sig, reg, dir := updatetest.New(t), updatetest.NewRegistry(t), t.TempDir()
	index, _, err := build.Layout(dir, build.Release{Version: version, Commit: commit, Built: time.Unix(1e9, 0), Publisher: publisher},
		map[string][]byte{"linux/amd64": []byte("amd64"), "linux/arm64": []byte("arm64")})
	if err != nil {
		t.Fatal(err)
	}
	by := updatetest.Run("owner/viiwork", version, commit)
	proof := sig.Sign(updatetest.Signing{Identity: by, Statement: updatetest.Provenance(by, map[string]string{"index": strings.TrimPrefix(index, "sha256:")}).JSON(t)})
	if _, err := update.Publish(t.Context(), update.Publication{Dir: dir, Version: version, Repository: reg.Name, Bundles: [][]byte{proof}, Transport: reg}); err != nil {
		t.Fatal(err)
	}
	u, err := update.New(update.Config{Publisher: publisher, Version: "v1.0.0", Source: reg.Name, StateDir: t.TempDir(), Transport: reg,
		Trust: update.TrustConfig{Root: sig.Root(), Mirror: "http://tuf.example", Transport: silent{}}})
	if err != nil {
		t.Fatal(err)
	}
	found, _, err := u.Find(t.Context(), version, false)
	if err != nil {
		t.Fatal(err)
	}
	image, err := found.Image(t.Context(), "linux/"+runtime.GOARCH, "viiwork-node:"+version, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return found, image
}

// silent is a network on which nobody answers.
type silent struct{}

func (silent) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("no route") }

// loading is a daemon that makes of each archive what it is told to.
type loading struct {
	*daemon
	id      string
	holds   []string
	archive []byte
}

func (l *loading) LoadImage(_ context.Context, archive io.Reader) (err error) {
	l.archive, err = io.ReadAll(archive)
	l.tags["viiwork-node:v1.1.0"], l.content[l.id], l.images[l.id] = l.id, l.holds, l.images[newImage]
	return err
}

// TestImageThatDockerHasIsTheOneThatWasProved, by one of the names that a Docker has for it, or it is not used.
func TestImageThatDockerHasIsTheOneThatWasProved(t *testing.T) {
	release, proved := released(t, "v1.1.0")
	for name, c := range map[string]struct {
		id      string
		content []string
		good    bool
	}{
		"Docker's own store":  {proved.Config, proved.Content, true},
		"another store":       {"sha256:another", proved.Content, true},
		"another image":       {"sha256:another", []string{"sha256:another"}, false},
		"one with more in it": {"sha256:another", append(slices.Clone(proved.Content), "sha256:more"), false},
		"one with nothing":    {"sha256:another", nil, false},
	} {
		d, dir := &loading{daemon: newDaemon(t), id: c.id, holds: c.content}, t.TempDir()
		cfg := d.daemon.config(dir)
		cfg.Images = d
		err := swap.Begin(t.Context(), cfg, swap.Order{Release: release, Self: self(), From: "v1.0.0", Node: "attic", Patience: time.Minute})
		p, odd := swap.At(dir).Plan()
		switch {
		case odd != nil || len(d.archive) == 0:
			t.Errorf("%s: %v, an archive of %d bytes", name, odd, len(d.archive))
		case c.good && (err != nil || p.Image != c.id || !slices.Equal(p.Content, proved.Content) || p.Digest != release.Digest()):
			t.Errorf("%s: %v, %+v", name, err, p)
		case !c.good && (err == nil || !strings.Contains(err.Error(), "is not what was proved") || p != nil || d.acts != 0):
			t.Errorf("%s: %v after %d acts", name, err, d.acts)
		}
		if _, err := os.Stat(filepath.Join(dir, "swap", "image.tar")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the archive is left behind", name)
		}
	}
}

// TestVersionThatWasTakenBackIsNotTriedAgainByItself: a person may name it, and may go back to it.
func TestVersionThatWasTakenBackIsNotTriedAgainByItself(t *testing.T) {
	release, proved := released(t, "v1.1.0")
	for name, c := range map[string]struct {
		order swap.Order
		begun bool
	}{
		"by itself": {swap.Order{Release: release}, false},
		"named":     {swap.Order{Release: release, Named: true}, true},
		"gone back": {swap.Order{}, true},
	} {
		d, dir := &loading{daemon: newDaemon(t), id: proved.Config, holds: proved.Content}, t.TempDir()
		was := swap.State{Previous: &swap.Kept{Version: "v1.1.0", Image: newImage}, Bad: []install.Bad{{Version: "v1.1.0", Why: "it ended by itself"}}}
		if err := swap.Remember(dir, was); err != nil {
			t.Fatal(err)
		}
		cfg := d.daemon.config(dir)
		cfg.Images = d
		c.order.Self, c.order.From, c.order.Patience = self(), "v1.0.0", time.Minute
		err := swap.Begin(t.Context(), cfg, c.order)
		if (err == nil) != c.begun || !c.begun && (!errors.Is(err, swap.ErrRefused) || !strings.Contains(err.Error(), "it ended by itself")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
