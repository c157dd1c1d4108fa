package papers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// maxFile is what three documents take at most, written down.
const maxFile = 4*MaxDocument + 1<<10

var digestText = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// IsDigest tells whether a text can be an image's digest.
func IsDigest(text string) bool { return digestText.MatchString(text) }

// Folder keeps papers, a file for each image, 0600. Several processes may use one.
type Folder struct{ dir string }

// FolderIn is where a node keeps papers.
func FolderIn(stateDir string) Folder { return Folder{filepath.Join(stateDir, "image-papers")} }

// Find reads the papers of an image and checks them. Where there are none, or none that hold, the error is fs.ErrNotExist.
func (f Folder) Find(digest string) (Papers, *Image, error) {
	var p Papers
	if !IsDigest(digest) {
		return p, nil, fmt.Errorf("%.80q is no digest: %w", digest, fs.ErrNotExist)
	}
	file, err := os.OpenFile(f.file(digest), os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for a writer that never comes
	if err != nil {
		return p, nil, fmt.Errorf("reading the papers of %s: %w", digest, none(err))
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return p, nil, fmt.Errorf("reading the papers of %s: %w", digest, none(err))
	}
	image, err := p.Check(digest)
	if err != nil {
		return p, nil, none(err)
	}
	return p, image, nil
}

// none makes any fault one of papers that are not there: they are fetched again with the image.
func none(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w: %w", err, fs.ErrNotExist)
}

// Keep writes the papers of an image down, if they hold.
func (f Folder) Keep(digest string, p Papers) error {
	if _, err := p.Check(digest); err != nil {
		return err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := f.make(); err != nil {
		return fmt.Errorf("storing an image's papers: %w", err)
	}
	if err := f.write(digest, text); err != nil {
		return fmt.Errorf("storing an image's papers: %w", err)
	}
	return nil
}

func (f Folder) make() error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	return own(f.dir, filepath.Dir(f.dir))
}

// write leaves the old file or the new one.
func (f Folder) write(digest string, text []byte) error {
	to, err := os.CreateTemp(f.dir, ".papers-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(to.Name()) // fails once it has its name
	_, err = to.Write(text)
	if err := errors.Join(err, own(to.Name(), f.dir), to.Sync(), to.Close()); err != nil {
		return err
	}
	return os.Rename(to.Name(), f.file(digest))
}

// own gives what root writes to whom the folder around it belongs: the node, which has to read it.
func own(path, around string) error {
	stat, err := os.Stat(around)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	if owner, ok := stat.Sys().(*syscall.Stat_t); ok {
		return os.Chown(path, int(owner.Uid), int(owner.Gid))
	}
	return nil
}

// Retain removes the papers of all images but these.
func (f Folder) Retain(digests []string) error {
	keep := map[string]bool{}
	for _, digest := range digests {
		keep[filepath.Base(f.file(digest))] = true
	}
	entries, err := os.ReadDir(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if !keep[e.Name()] && !strings.HasPrefix(e.Name(), ".") {
			err = errors.Join(err, os.Remove(filepath.Join(f.dir, e.Name())))
		}
	}
	return err
}

func (f Folder) file(digest string) string { return filepath.Join(f.dir, hexOf(digest)+".json") }
