package imagecopy

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"

	"viiwork/images/papers"
)

// maxEntries is more than an archive of an image has.
const maxEntries = 8 << 10

var (
	errBudget  = errors.New("no room")
	errEntries = errors.New("more files than an image has")
)

// unpacking takes an archive of 'docker save' apart. Where a file lies in it and what it is called says nothing: those stay
// whose bytes are a layer of the image, under their digest.
type unpacking struct {
	dir    string
	image  *papers.Image
	budget int64 // bytes that may yet be written
	wrote  func(bytes int64)

	sizes map[string]int64 // of the layers that are there, by digest
}

func (u *unpacking) all(archive io.Reader) error {
	from := tar.NewReader(archive)
	for range maxEntries {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg || h.Size == 0 {
			continue
		}
		if u.budget -= h.Size; u.budget < 0 {
			return errBudget
		}
		if err := u.one(from, h.Size); err != nil {
			return err
		}
	}
	return errEntries
}

// one keeps a file if it is a layer.
func (u *unpacking) one(from io.Reader, size int64) error {
	to, err := os.CreateTemp(u.dir, ".layer-*")
	if err != nil {
		return err
	}
	defer os.Remove(to.Name()) // fails once it has its name
	defer to.Close()
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(to, sum, counter(u.wrote)), from); err != nil {
		return err
	}
	digest := "sha256:" + hex.EncodeToString(sum.Sum(nil))
	if !u.image.Wants(digest) {
		u.budget += size
		return nil
	}
	u.sizes[digest] = size
	return os.Rename(to.Name(), filepath.Join(u.dir, hexOf(digest)))
}

// counter tells of bytes as they are written.
type counter func(bytes int64)

func (c counter) Write(b []byte) (int, error) { c(int64(len(b))); return len(b), nil }
