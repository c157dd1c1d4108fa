package update

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// A directory holds releases as 'make release' leaves them: an OCI image layout whose index names each release's own
// index with its version, and beside it the proofs as files NAME.sigstore.json.
const (
	nameAnnotation = "org.opencontainers.image.ref.name"
	bundleSuffix   = ".sigstore.json"
)

// folder is such a directory. An os.Root keeps links in it, say on somebody's stick, from leading out of it.
type folder struct {
	root *os.Root
}

func openFolder(dir string) (*folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the source of releases: %w", err)
	}
	f := &folder{root}
	if _, err := f.list(); err != nil {
		root.Close()
		return nil, fmt.Errorf("opening the source of releases %s: %w: name a directory that 'make release' wrote", dir, err)
	}
	return f, nil
}

func (f *folder) list() ([]v1.Descriptor, error) {
	text, err := f.read("index.json", maxManifest)
	if err != nil {
		return nil, err
	}
	var doc v1.IndexManifest
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("reading index.json: %w", err)
	}
	return doc.Manifests, nil
}

func (f *folder) versions(context.Context) ([]string, error) {
	listed, err := f.list()
	if err != nil {
		return nil, err
	}
	var found []string
	for _, d := range listed {
		if v := d.Annotations[nameAnnotation]; CheckVersion(v) == nil && len(found) < maxVersions {
			found = append(found, v)
		}
	}
	return found, nil
}

func (f *folder) resolve(ctx context.Context, what string) (v1.Hash, []byte, error) {
	listed, err := f.list()
	if err != nil {
		return v1.Hash{}, nil, err
	}
	for _, d := range listed {
		if !d.MediaType.IsIndex() || d.Annotations[nameAnnotation] != what && d.Digest.String() != what {
			continue
		}
		text, err := (&Source{at: f}).readManifest(ctx, d)
		return d.Digest, text, err
	}
	return v1.Hash{}, nil, fmt.Errorf("looking for %s in %s: %w: check update.source and the version", quoted(what), f.root.Name(), errNone)
}

// proofs reads all files that may be one: which of them speaks of digest is for the examination to say.
func (f *folder) proofs(context.Context, v1.Hash) ([][]byte, error) {
	entries, err := fs.ReadDir(f.root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("looking for proofs: %w", err)
	}
	var bundles [][]byte
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), bundleSuffix) || len(bundles) == maxReferrers {
			continue
		}
		if text, err := f.read(e.Name(), maxBundle); err == nil {
			bundles = append(bundles, text)
		}
	}
	return bundles, nil
}

func (f *folder) open(_ context.Context, what v1.Descriptor) (io.ReadCloser, error) {
	if what.Digest.Algorithm != "sha256" || len(what.Digest.Hex) != 64 {
		return nil, fmt.Errorf("%s is no digest", quoted(what.Digest.String()))
	}
	return f.file(path.Join("blobs", "sha256", what.Digest.Hex))
}

// file opens a regular file; a pipe on a stick would wait for ever.
func (f *folder) file(name string) (*os.File, error) {
	stat, err := f.root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !stat.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", name)
	}
	return f.root.Open(name)
}

func (f *folder) read(name string, limit int64) ([]byte, error) {
	file, err := f.file(name)
	if err != nil {
		return nil, err
	}
	text, err := readAll(file, limit)
	return text, errors.Join(err, file.Close())
}
