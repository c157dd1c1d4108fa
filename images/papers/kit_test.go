package papers_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"viiwork/images/papers"
)

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(s[:])
}

// made is an image as a registry has it, made by hand: what a test changes of it stays changed.
type made struct {
	papers.Papers
	digest  string
	archive map[string][]byte // the layers' archives, by digest
	blobs   map[string][]byte // the same, packed
	order   []string          // of the archives
}

// newMade has layers of these sizes; one of size 0 is the one before once more.
func newMade(t testing.TB, sizes ...int) *made {
	t.Helper()
	m := &made{archive: map[string][]byte{}, blobs: map[string][]byte{}}
	var layers, contents []any
	for i, size := range sizes {
		content := make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(content)
		if size == 0 {
			content = m.archive[m.order[i-1]]
		}
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.NoCompression) // the race detector makes the others slow
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(content)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		m.archive[sum(content)], m.blobs[sum(packed.Bytes())] = content, packed.Bytes()
		m.order = append(m.order, sum(content))
		contents = append(contents, sum(content))
		layers = append(layers, map[string]any{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": sum(packed.Bytes()), "size": packed.Len()})
	}
	m.describe(t, map[string]any{"os": "linux", "architecture": runtime.GOARCH, "config": map[string]any{"Entrypoint": []string{"/run"}, "User": "7"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": contents}}, layers)
	return m
}

// describe writes the papers.
func (m *made) describe(t testing.TB, config map[string]any, layers []any) {
	t.Helper()
	m.Config = text(t, config)
	m.Manifest = text(t, map[string]any{"schemaVersion": 2, "config": map[string]any{"digest": sum(m.Config), "size": len(m.Config)}, "layers": layers})
	m.digest = sum(m.Manifest)
}

func text(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// parts are the archives, or the packed layers.
func (m *made) parts(t testing.TB, packed bool) []papers.Part {
	t.Helper()
	from := m.archive
	if packed {
		from = m.blobs
	}
	parts, err := m.image(t).Parts(func(digest string) (int64, bool) { b, ok := from[digest]; return int64(len(b)), ok })
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

func (m *made) image(t testing.TB) *papers.Image {
	t.Helper()
	image, err := m.Check(m.digest)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func (m *made) open(p papers.Part) (io.ReadCloser, error) {
	b, ok := m.archive[p.Digest]
	if !ok {
		b, ok = m.blobs[p.Digest]
	}
	if !ok {
		return nil, errors.New("no such part")
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// entries reads an archive to its end.
func entries(t testing.TB, archive []byte) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg || strings.ContainsAny(h.Name, "/\\") {
			t.Errorf("an entry %q of type %c", h.Name, h.Typeflag)
		}
		if _, twice := all[h.Name]; twice {
			t.Errorf("%s is there twice", h.Name)
		}
		if all[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}
