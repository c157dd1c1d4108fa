package update_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"viiwork/update"
)

// crafted makes a proved release whose layer is whatever a test likes, in a directory, and verifies it.
func (w *world) crafted(layer []byte, change func(*v1.Manifest, *v1.IndexManifest)) (*update.Verified, string) {
	w.t.Helper()
	dir := w.t.TempDir()
	blob := func(text []byte, kind types.MediaType) v1.Descriptor {
		hash := v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", sha256.Sum256(text))}
		path := filepath.Join(dir, "blobs", "sha256", hash.Hex)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			w.t.Fatal(err)
		}
		write(w.t, path, text)
		return v1.Descriptor{MediaType: kind, Size: int64(len(text)), Digest: hash}
	}
	document := func(doc any, kind types.MediaType) v1.Descriptor {
		text, err := json.Marshal(doc)
		if err != nil {
			w.t.Fatal(err)
		}
		return blob(text, kind)
	}
	manifest := v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: blob([]byte("{}"), types.OCIConfigJSON), Layers: []v1.Descriptor{blob(layer, types.OCILayer)},
	}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	if change != nil {
		change(&manifest, &index)
	}
	d := document(manifest, types.OCIManifestSchema1)
	d.Platform = &v1.Platform{OS: "linux", Architecture: "amd64"}
	index.Manifests = append(index.Manifests, d)
	top := document(index, types.OCIImageIndex)
	top.Annotations = map[string]string{"org.opencontainers.image.ref.name": version}
	text, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, Manifests: []v1.Descriptor{top}})
	if err != nil {
		w.t.Fatal(err)
	}
	write(w.t, filepath.Join(dir, "index.json"), text)
	write(w.t, filepath.Join(dir, "release.sigstore.json"), w.prove(version, top.Digest.Hex))
	found, r, err := w.updater("v1.0.0", func(c *update.Config) { c.Source = dir }).Find(w.t.Context(), version, false)
	wantAccepted(w.t, r, err)
	return found, dir
}

type file struct {
	name string
	kind byte
	text string
}

func tarball(t *testing.T, files ...file) []byte {
	t.Helper()
	text, ok := tryTarball(files...)
	if !ok {
		t.Fatalf("no archive can hold %+v", files)
	}
	return text
}

// tryTarball reports whether the format can hold such files at all.
func tryTarball(files ...file) ([]byte, bool) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	ok := true
	for _, f := range files {
		h := &tar.Header{Name: f.name, Typeflag: f.kind, Mode: 0o755}
		if f.kind == tar.TypeReg {
			h.Size = int64(len(f.text))
		} else {
			h.Linkname = f.text
		}
		ok = ok && w.WriteHeader(h) == nil
		if ok && f.kind == tar.TypeReg {
			_, err := w.Write([]byte(f.text))
			ok = err == nil
		}
	}
	ok = ok && w.Close() == nil && zip.Close() == nil
	return out.Bytes(), ok
}
