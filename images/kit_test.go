package images_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"viiwork/images"
)

// daemon is as much of Docker as images need: it fetches for real, and keeps what it fetched by id and name.
type daemon struct {
	other    string // the id it tells instead of the right one; "" = that
	buildErr error
	stored   bool // it keeps images in containerd: an image's id is its manifest's digest
	full     bool // its disk, for what is loaded
	spoil    func(*loaded)

	mu    sync.Mutex
	pulls int
	ids   map[string]string // by name
	built []string          // files of the folder it was given
	loads map[string]loaded // by id
}

func (d *daemon) Pull(ctx context.Context, ref string, tell func(string, int64)) error {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return err
	}
	img, err := remote.Image(parsed, remote.WithContext(ctx), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: goarch}))
	if err != nil {
		return err
	}
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return err
		}
		content, err := layer.Compressed()
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, content)
		if err = errors.Join(err, content.Close()); err != nil {
			return err
		}
		if tell != nil {
			tell(digest.Hex[:12], n/2)
			tell(digest.Hex[:12], -1)
			tell(digest.Hex[:12], n/3) // unpacked: told, but no transfer
		}
	}
	id, err := img.ConfigName()
	if d.stored {
		id, err = img.Digest()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pulls++
	d.name(ref, id.String())
	return err
}

func (d *daemon) ImageID(_ context.Context, ref string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id, ok := d.ids[ref]
	for _, known := range d.ids { // an id names an image as well
		if known == ref {
			id, ok = known, true
		}
	}
	switch {
	case !ok:
		return "", fmt.Errorf("image %s: %w", ref, fs.ErrNotExist)
	case d.other != "":
		return d.other, nil
	}
	return id, nil
}

func (d *daemon) Tag(_ context.Context, id, ref string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.name(ref, id)
	return nil
}

func (d *daemon) name(ref, id string) {
	if d.ids == nil {
		d.ids = map[string]string{}
	}
	d.ids[ref] = id
}

func (d *daemon) forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.ids, func(_, known string) bool { return known == id })
}

func (d *daemon) has(ref string) bool {
	_, err := d.ImageID(context.Background(), ref)
	return err == nil
}

// machine is a stock with its book on a daemon.
type machine struct {
	t     *testing.T
	path  string
	book  *images.Book
	stock *images.Stock
}

var someDay = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func newMachine(t *testing.T, d *daemon) *machine {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state", "images.json")
	return &machine{t: t, path: path, book: openBook(t, path), stock: stockOf(d, openBook(t, path))}
}

func stockOf(d *daemon, book *images.Book) *images.Stock {
	return images.New(images.Config{Docker: d, Book: book, Now: func() time.Time { return someDay }})
}

func openBook(t *testing.T, path string) *images.Book {
	t.Helper()
	book, err := images.OpenBook(path)
	if err != nil {
		t.Fatal(err)
	}
	return book
}

func (m *machine) pull(image, digest string) (images.Held, error) {
	return m.stock.Pull(m.t.Context(), images.Order{Image: image, Digest: digest})
}

// kept is what a new process finds in the book.
func (m *machine) kept() []images.Held {
	m.t.Helper()
	return openBook(m.t, m.path).All()
}
