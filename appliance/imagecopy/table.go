package imagecopy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/images/papers"
)

const (
	// layFor is how long laying one image out may take in all.
	layFor = time.Hour
	// keepFor is how long one lies there after the last question for it.
	keepFor = 10 * time.Minute
	// keepFree is what of the disk is left free.
	keepFree = 1 << 30
	// maxLaid is how many images lie there at one time; one that nobody has asked for in idleFor makes room.
	maxLaid = 2
	idleFor = time.Minute
)

// job is an image to lay out.
type job struct {
	digest, id string
	image      *papers.Image
}

// entry is one on the table: with its parts once they lie there, or with why they do not.
type entry struct {
	parts []papers.Part
	bytes int64
	err   error
	asked time.Time
}

// table is what is laid out. One image at a time is.
type table struct {
	cfg  ServerConfig
	jobs chan job // holds all there can be

	mu sync.Mutex // guards what follows
	at map[string]*entry
}

func newTable(c ServerConfig) table {
	return table{cfg: c, jobs: make(chan job, maxLaid), at: map[string]*entry{}}
}

// of tells what there is of an image, and has it laid out if that is nothing. A fault is told once; who asks again may have
// mended it.
func (t *table) of(j job) (laid, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.at[j.digest]
	if !ok {
		if t.clear(keepFor); len(t.at) >= maxLaid {
			t.clear(idleFor)
		}
		if len(t.at) >= maxLaid {
			return laid{}, mesh.ErrBusy
		}
		e = &entry{}
		t.at[j.digest] = e
		t.jobs <- j // there is room: each has its entry
	}
	e.asked = time.Now()
	if e.err != nil {
		delete(t.at, j.digest)
		return laid{}, e.err
	}
	return laid{e.parts, e.bytes}, nil
}

// open opens a layer that lies there.
func (t *table) open(digest, layer string) (*os.File, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.at[digest]
	if !ok || !slices.ContainsFunc(e.parts, func(p papers.Part) bool { return p.Digest == layer }) {
		return nil, fs.ErrNotExist
	}
	e.asked = time.Now()
	return os.Open(filepath.Join(t.dir(digest), hexOf(layer)))
}

func (t *table) dir(digest string) string { return filepath.Join(t.cfg.Dir, hexOf(digest)) }

func hexOf(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

func (t *table) run(ctx context.Context) error {
	_ = os.RemoveAll(t.cfg.Dir) // of a run that was killed; where it cannot go, nothing can be laid out either, which is told then
	defer os.RemoveAll(t.cfg.Dir)
	sweep := time.NewTicker(keepFor / 10)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-sweep.C:
			t.forget(keepFor)
			t.tidy()
		case j := <-t.jobs:
			t.tidy()
			parts, err := t.lay(ctx, j)
			t.end(j.digest, parts, err)
		}
	}
}

func (t *table) end(digest string, parts []papers.Part, err error) {
	if err != nil {
		_ = os.RemoveAll(t.dir(digest))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.at[digest]
	e.parts, e.err, e.asked = parts, err, time.Now()
}

func (t *table) forget(idle time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear(idle)
}

// clear takes from the table what nobody has asked for in a while, and what came to nothing. It wants the lock held, and leaves
// the files to tidy: those of an image take long to remove.
func (t *table) clear(idle time.Duration) {
	for digest, e := range t.at {
		lies := e.parts != nil && time.Since(e.asked) > idle
		if lies || e.err != nil && time.Since(e.asked) > idleFor {
			delete(t.at, digest)
		}
	}
}

// tidy removes the files of what is on the table no more. What is open can be read to the end of its piece.
func (t *table) tidy() {
	lie, err := os.ReadDir(t.cfg.Dir)
	if err != nil {
		return // nothing was laid out yet
	}
	for _, e := range lie {
		t.mu.Lock()
		_, wanted := t.at["sha256:"+e.Name()]
		t.mu.Unlock()
		if !wanted {
			_ = os.RemoveAll(filepath.Join(t.cfg.Dir, e.Name())) // else the next time
		}
	}
}

// lay has Docker save an image, and keeps what are its layers. Errors are in words for the asker.
func (t *table) lay(ctx context.Context, j job) ([]papers.Part, error) {
	ctx, cancel := context.WithTimeout(ctx, layFor)
	defer cancel()
	dir := t.dir(j.digest)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, failed("it cannot write to its disk")
	}
	archive, size, err := t.cfg.Docker.SaveImage(ctx, j.id)
	if err != nil {
		t.cfg.Log.Warn("an image could not be saved for a member", "image", j.digest, "error", err)
		return nil, failed("its Docker does not give the image away")
	}
	defer archive.Close()
	free, err := t.cfg.Free(dir)
	if err != nil || free < size+keepFree {
		return nil, failed("its disk has no room to lay the image out")
	}
	u := unpacking{dir: dir, image: j.image, budget: free - keepFree, sizes: map[string]int64{}, wrote: func(n int64) {
		t.mu.Lock()
		t.at[j.digest].bytes += n
		t.mu.Unlock()
	}}
	err = u.all(archive)
	switch {
	case errors.Is(err, errBudget):
		return nil, failed("its disk has no room to lay the image out")
	case err != nil:
		t.cfg.Log.Warn("an image could not be laid out for a member", "image", j.digest, "error", err)
		return nil, failed("its Docker stopped giving the image away")
	}
	parts, err := j.image.Parts(func(digest string) (int64, bool) { size, ok := u.sizes[digest]; return size, ok })
	if err != nil {
		return nil, failed(fmt.Sprintf("its Docker gives the image in other bytes than were fetched: %v", err))
	}
	t.cfg.Log.Info("an engine's image lies ready for members", "image", j.digest, "bytes", papers.Total(parts), "goes_when_unasked_for", keepFor)
	return parts, nil
}

func failed(message string) error {
	return &mesh.No{Status: http.StatusServiceUnavailable, Code: "not_to_be_had", Message: message}
}
