package build

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	emptyType   = "application/vnd.oci.empty.v1+json"
	programType = "application/vnd.viiwork.program.v1" // of a platform that runs no images

	imageSpec = "org.opencontainers.image."
)

// Levels are the digests of one platform's part of a release, from the inside out. Where a rebuild differs, the innermost
// one that differs is where to look.
type Levels struct {
	Program  string `json:"program"`  // SHA-256 of the program
	Content  string `json:"content"`  // of the archive that holds it
	Layer    string `json:"layer"`    // of that archive, compressed
	Manifest string `json:"manifest"` // of the platform's manifest
}

// layout is an OCI image layout in the making.
type layout struct {
	dir string
	rel Release
}

// entry is one file of an archive.
type entry struct {
	name string
	mode int64
	text []byte // nil = a directory
}

// archive is a tar file that knows nothing of the machine it was made on.
func archive(entries []entry) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.text)), Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if e.text == nil {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

func compress(text []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

// blob stores text under its digest.
func (l layout) blob(text []byte, kind types.MediaType) (v1.Descriptor, error) {
	d := v1.Descriptor{MediaType: kind, Size: int64(len(text)), Digest: digest(text)}
	return d, os.WriteFile(filepath.Join(l.dir, "blobs", "sha256", d.Digest.Hex), text, 0o644)
}

func (l layout) document(doc any, kind types.MediaType) (v1.Descriptor, error) {
	text, err := json.Marshal(doc)
	if err != nil {
		return v1.Descriptor{}, err
	}
	return l.blob(text, kind)
}

// platform adds one platform's program: as an image that runs where there are images, as a file alone where not.
func (l layout) platform(platform string, program []byte) (v1.Descriptor, Levels, error) {
	content, err := archive([]entry{{"tmp/", 0o1777, nil}, {"usr/", 0o755, nil}, {"usr/bin/", 0o755, nil}, {"usr/bin/viiwork", 0o755, program}})
	if err != nil {
		return v1.Descriptor{}, Levels{}, err
	}
	packed, err := compress(content)
	if err != nil {
		return v1.Descriptor{}, Levels{}, err
	}
	layer, err := l.blob(packed, types.OCILayer)
	if err != nil {
		return v1.Descriptor{}, Levels{}, err
	}
	goos, arch, _ := strings.Cut(platform, "/")
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Layers: []v1.Descriptor{layer}}
	if goos == "linux" {
		manifest.Config, err = l.document(l.config(goos, arch, digest(content)), types.OCIConfigJSON)
	} else {
		manifest.ArtifactType = programType
		manifest.Config, err = l.blob([]byte("{}"), emptyType)
	}
	if err != nil {
		return v1.Descriptor{}, Levels{}, err
	}
	d, err := l.document(manifest, types.OCIManifestSchema1)
	d.Platform, d.ArtifactType = &v1.Platform{OS: goos, Architecture: arch}, manifest.ArtifactType
	return d, Levels{digest(program).Hex, digest(content).Hex, layer.Digest.Hex, d.Digest.Hex}, err
}

func (l layout) config(goos, arch string, content v1.Hash) v1.ConfigFile {
	return v1.ConfigFile{
		OS: goos, Architecture: arch, Created: v1.Time{Time: l.rel.Built.UTC()},
		RootFS:  v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{content}},
		History: []v1.History{{Created: v1.Time{Time: l.rel.Built.UTC()}, CreatedBy: "viiwork release build"}},
		Config: v1.Config{
			Env: []string{"PATH=/usr/bin"}, Entrypoint: []string{"/usr/bin/viiwork"}, Cmd: []string{"serve"}, WorkingDir: "/", Labels: l.facts(),
		},
	}
}

// facts are the annotations by which people and registries know a release. None of them is believed by an update.
func (l layout) facts() map[string]string {
	facts := map[string]string{
		imageSpec + "title": "viiwork", imageSpec + "licenses": "MIT",
		imageSpec + "version": l.rel.Version, imageSpec + "revision": l.rel.Commit, imageSpec + "created": l.rel.built(),
	}
	if repo, workflow, ok := strings.Cut(l.rel.Publisher, "/.github/workflows/"); ok {
		facts[imageSpec+"source"] = "https://" + repo
		facts["viiwork.publisher"] = repo + "/.github/workflows/" + workflow
	}
	return facts
}

// Layout writes a release's programs, by platform, to dir as an OCI image layout and returns the digest of its index.
func Layout(dir string, rel Release, programs map[string][]byte) (index string, levels map[string]Levels, err error) {
	if err := rel.check(); err != nil {
		return "", nil, err
	}
	l := layout{dir, rel}
	if err := os.MkdirAll(filepath.Join(dir, "blobs", "sha256"), 0o755); err != nil {
		return "", nil, fmt.Errorf("writing the release: %w", err)
	}
	doc := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Annotations: l.facts()}
	levels = map[string]Levels{}
	for _, platform := range sorted(programs) {
		d, found, err := l.platform(platform, programs[platform])
		if err != nil {
			return "", nil, fmt.Errorf("writing the release for %s: %w", platform, err)
		}
		doc.Manifests, levels[platform] = append(doc.Manifests, d), found
	}
	d, err := l.document(doc, types.OCIImageIndex)
	if err != nil {
		return "", nil, fmt.Errorf("writing the release: %w", err)
	}
	d.Annotations = map[string]string{imageSpec + "ref.name": rel.Version}
	return d.Digest.String(), levels, l.enter(d)
}

// enter names the release in the layout's own index, beside others that a directory may hold.
func (l layout) enter(d v1.Descriptor) error {
	path := filepath.Join(l.dir, "index.json")
	doc := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	if text, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(text, &doc); err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
	}
	doc.Manifests = slices.DeleteFunc(doc.Manifests, func(old v1.Descriptor) bool {
		return old.Annotations[imageSpec+"ref.name"] == l.rel.Version
	})
	doc.Manifests = append(doc.Manifests, d)
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the release: %w", err)
	}
	return os.WriteFile(filepath.Join(l.dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644)
}

func digest(text []byte) v1.Hash { return v1.Hash{Algorithm: "sha256", Hex: hexSum(text)} }

func hexSum(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text)) }
