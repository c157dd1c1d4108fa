package images

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
)

// Bounds of the book and of what a damaged or foreign file may make us read.
const (
	bookMax     = 256
	bookBytes   = 1 << 20
	bookVersion = 1
)

// Held is one image that was fetched and checked, or made here.
type Held struct {
	Reference string    `json:"reference"` // in full; with a tag, or by digest
	Digest    string    `json:"digest"`    // of the manifest that was asked for; "" = made here
	ID        string    `json:"id"`        // Docker's
	At        time.Time `json:"at"`
}

// Book is the list of them, in one file of a node's state directory, 0600. Several processes may use one file: each
// change is made to what it holds at that moment.
type Book struct {
	path string

	mu   sync.Mutex
	held map[string]Held // by Reference
}

type bookDoc struct {
	Version int    `json:"version"`
	Images  []Held `json:"images"`
}

// BookFile is where a node keeps its book.
func BookFile(stateDir string) string { return filepath.Join(stateDir, "images.json") }

// OpenBook reads the book at path. None there is an empty one.
func OpenBook(path string) (*Book, error) {
	b := &Book{path: path}
	held, err := readBook(path)
	b.held = held
	return b, err
}

// Find returns what is held for a reference.
func (b *Book) Find(ref string) (Held, bool) {
	parsed, err := canonical(ref)
	if err != nil {
		return Held{}, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.held[parsed.Name()]
	return h, ok
}

// Digest returns what is held by a digest, whatever it was asked for by.
func (b *Book) Digest(digest string) (Held, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range b.held {
		if h.Digest == digest && digest != "" {
			return h, true
		}
	}
	return Held{}, false
}

// Pin is what to start ref by: the id of the image that was checked, or ref itself (false) where none was.
func (b *Book) Pin(ref string) (string, bool) {
	if h, ok := b.Find(ref); ok {
		return h.ID, true
	}
	return ref, false
}

// All lists what is held, by reference.
func (b *Book) All() []Held {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Values(b.held), func(x, y Held) int { return cmp.Compare(x.Reference, y.Reference) })
}

// keep writes h down. Of too many the oldest are forgotten.
func (b *Book) keep(h Held) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	dir := filepath.Dir(b.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the state directory: %w: make it writable to this user or set node.state_dir", err)
	}
	unlock, err := lockFolder(dir)
	if err != nil {
		return err
	}
	defer unlock()
	held, err := readBook(b.path)
	if err != nil {
		return err
	}
	held[h.Reference] = h
	for len(held) > bookMax {
		oldest := slices.MinFunc(slices.Collect(maps.Values(held)), func(x, y Held) int { return x.At.Compare(y.At) })
		delete(held, oldest.Reference)
	}
	if err := writeBook(b.path, held); err != nil {
		return fmt.Errorf("storing which images were checked: %w: make room in %s, or let this user write there, and run the same command again", err, dir)
	}
	b.held = held
	return nil
}

// readBook returns an empty book, and never nil, with every error.
func readBook(path string) (map[string]Held, error) {
	held := map[string]Held{}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for a writer that never comes
	if errors.Is(err, fs.ErrNotExist) {
		return held, nil
	}
	if err != nil {
		return held, fmt.Errorf("reading which images were checked: %w: let this user read it, or move it away", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return held, fmt.Errorf("reading which images were checked: %s is no regular file: move it away", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, bookBytes+1))
	if err != nil {
		return held, fmt.Errorf("reading which images were checked: %w", err)
	}
	var doc bookDoc
	err = json.Unmarshal(text, &doc)
	switch {
	case err == nil && doc.Version != bookVersion:
		err = fmt.Errorf("version %d, not %d", doc.Version, bookVersion)
	case err == nil && (len(doc.Images) > bookMax || len(text) > bookBytes):
		err = fmt.Errorf("too long: %d images", len(doc.Images))
	}
	for i := 0; err == nil && i < len(doc.Images); i++ {
		err = doc.Images[i].check()
	}
	if err != nil {
		return held, fmt.Errorf("reading which images were checked: %s: %w: move the file away and fetch the images again with 'viiwork images pull'", path, err)
	}
	for _, h := range doc.Images {
		held[h.Reference] = h
	}
	return held, nil
}

func (h Held) check() error {
	ref, err := canonical(h.Reference)
	if err != nil || ref.Name() != h.Reference {
		return fmt.Errorf("%q is no full reference", h.Reference)
	}
	for _, digest := range []string{h.Digest, h.ID} {
		if hash, err := v1.NewHash(digest); err != nil && (digest != "" || digest == h.ID) || err == nil && hash.Algorithm != "sha256" {
			return fmt.Errorf("%q is no digest", strings.ToValidUTF8(digest, "?"))
		}
	}
	return nil
}

// writeBook leaves the old file or the new one, whatever happens. What root writes belongs to the node all the same:
// a book that its user cannot read would pin nothing.
func writeBook(path string, held map[string]Held) error {
	doc := bookDoc{Version: bookVersion}
	for _, ref := range slices.Sorted(maps.Keys(held)) {
		doc.Images = append(doc.Images, held[ref])
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".images-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it has its name
	if stat, statErr := os.Stat(dir); statErr == nil && os.Geteuid() == 0 {
		if owner, ok := stat.Sys().(*syscall.Stat_t); ok {
			err = f.Chown(int(owner.Uid), int(owner.Gid))
		}
	}
	_, writeErr := f.Write(append(text, '\n'))
	if err := errors.Join(err, writeErr, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// lockFolder keeps other processes from changing the book until unlock; the lock ends with the process at the latest.
func lockFolder(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the state directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return func() { f.Close() }, nil
}
