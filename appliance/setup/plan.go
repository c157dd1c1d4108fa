package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrRefused is what Apply returns when the owner said no. Nothing has changed then.
var ErrRefused = errors.New("the files were not wanted: nothing was changed")

// Plan is the files of one setup, in the order in which they are written.
type Plan struct {
	Root  string // put before every path; "" = /
	Files []File

	rename func(from, to string) error // nil = os.Rename
}

// Existing is what stands where a file is to go.
type Existing string

const (
	Missing Existing = "missing"
	Same    Existing = "same"    // nothing is to be done
	Ours    Existing = "ours"    // an earlier one of viiwork's, or one made of it
	Foreign Existing = "foreign" // somebody else's
)

// Compare looks at what stands where f is to go. Diff is for the owner, and empty where nothing would be lost.
func (p Plan) Compare(f File) (is Existing, diff string, err error) {
	path := p.at(f.Path)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Missing, "", nil
	case err != nil:
		return "", "", fmt.Errorf("looking at %s: %w", path, err)
	case f.IsDir():
		return p.compareDir(f, path)
	case info.IsDir():
		return "", "", fmt.Errorf("%s is a folder, and a file is to go there: move it away", path)
	case f.Link != "" || info.Mode()&fs.ModeSymlink != 0:
		return compareLink(f, path)
	case !info.Mode().IsRegular():
		return "", "", fmt.Errorf("%s is no ordinary file: move it away", path)
	case f.From != "":
		return compareCopy(f, path, info)
	}
	return compareText(f, path, info)
}

// compareDir lets a folder be as its owner has it.
func (p Plan) compareDir(f File, path string) (Existing, string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", "", fmt.Errorf("looking at %s: %w", path, err)
	}
	if !info.IsDir() {
		return "", "", fmt.Errorf("%s is a file, and a folder is to be there: move it away", f.Path)
	}
	return Same, "", nil
}

func compareLink(f File, path string) (Existing, string, error) {
	to, err := os.Readlink(path)
	if err != nil { // no link, where one is to be
		return Foreign, fmt.Sprintf("%s becomes a link to %s\n", f.Path, f.Link), nil
	}
	switch {
	case f.Link == to:
		return Same, "", nil
	case f.Link != "" && !strings.Contains(to, "/"):
		return Ours, "", nil // one version's folder for another's
	}
	return Foreign, fmt.Sprintf("%s, a link to %s, is replaced\n", f.Path, to), nil
}

func compareCopy(f File, path string, info fs.FileInfo) (Existing, string, error) {
	same, err := sameContent(f.From, path)
	if err != nil {
		return "", "", fmt.Errorf("comparing %s: %w", f.Path, err)
	}
	if same && info.Mode().Perm() == f.Mode.Perm() {
		return Same, "", nil
	}
	return Ours, "", nil // it lies in a folder of ours, under the same version
}

// sameContent compares two files of any size.
func sameContent(a, b string) (bool, error) {
	fa, err := os.Open(a)
	if err != nil {
		return false, err
	}
	defer fa.Close()
	fb, err := os.Open(b)
	if err != nil {
		return false, err
	}
	defer fb.Close()
	bufA, bufB := make([]byte, 1<<16), make([]byte, 1<<16)
	for {
		na, errA := io.ReadFull(fa, bufA)
		nb, errB := io.ReadFull(fb, bufB)
		if na != nb || !bytes.Equal(bufA[:na], bufB[:nb]) {
			return false, nil
		}
		if errA != nil || errB != nil {
			return atEnd(errA) && atEnd(errB), nil
		}
	}
}

func atEnd(err error) bool { return err == io.EOF || err == io.ErrUnexpectedEOF }

// maxOld bounds what is read of a file that is to be replaced.
const maxOld = 4 << 20

func compareText(f File, path string, info fs.FileInfo) (Existing, string, error) {
	old, err := Read(path)
	if err != nil {
		return "", "", fmt.Errorf("reading %s: %w", f.Path, err)
	}
	modes := ""
	if was := info.Mode().Perm(); was != f.Mode.Perm() {
		modes = fmt.Sprintf("%s changes its mode from %04o to %04o\n", f.Path, was, f.Mode.Perm())
	}
	if bytes.Equal(old, f.Content) && modes == "" {
		return Same, "", nil
	}
	is := Foreign
	if isOurs(old) {
		is = Ours
	}
	return is, modes + f.diff(old), nil
}

// diff shows what becomes of the old content. A secret that is replaced by another is named, not shown.
func (f File) diff(old []byte) string {
	if !f.Secret {
		return hideSecrets(Diff(f.Path, string(old), string(f.Content)))
	}
	text := Diff(f.Path, mask(string(old)), f.Shown())
	if text == "" && !bytes.Equal(old, f.Content) {
		return fmt.Sprintf("%s gets other secrets of the same names\n", f.Path)
	}
	return text
}

// isOurs finds the marker where viiwork writes it.
func isOurs(text []byte) bool {
	head := text[:min(len(text), 400)]
	return bytes.Contains(head, []byte(marker))
}

// Read reads an ordinary file up to the size that any of ours could have: a pipe would never end.
func Read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // to open a pipe would wait for its other end
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is no ordinary file: move it away", path))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxOld+1))
	if err == nil && len(text) > maxOld {
		err = fmt.Errorf("it is over %d bytes: move it away", maxOld)
	}
	return text, err
}

// at is a path below Root.
func (p Plan) at(path string) string { return filepath.Join("/", p.Root, path) }
