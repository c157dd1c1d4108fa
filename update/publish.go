package update

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Publication says what goes where.
type Publication struct {
	Dir        string            // as package build left it
	Version    string            // which of the releases in it
	Repository string            // "ghcr.io/owner/viiwork"
	Bundles    [][]byte          // proofs to attach to it; nil = none yet
	Transport  http.RoundTripper // nil = the usual one
}

// Publish puts a release into a registry by digest, its proofs beside it, and only then the version's tag on it, so that
// nobody finds a version without its proof. The registry's keys are those that 'docker login' left. It returns the
// digest of the index.
func Publish(ctx context.Context, p Publication) (string, error) {
	repo, err := name.NewRepository(p.Repository)
	if err != nil {
		return "", fmt.Errorf("publishing to %s: %w", quoted(p.Repository), err)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if p.Transport != nil {
		options = append(options, remote.WithTransport(p.Transport))
	}
	index, err := indexOf(p.Dir, p.Version)
	if err != nil {
		return "", err
	}
	digest, err := index.Digest()
	if err != nil {
		return "", fmt.Errorf("reading the release: %w", err)
	}
	if err := remote.WriteIndex(repo.Digest(digest.String()), index, options...); err != nil {
		return "", fmt.Errorf("publishing %s: %w", p.Version, err)
	}
	for _, b := range p.Bundles { // one after the other: the tag that lists them is read, changed and written
		if err := attach(repo, index, b, options); err != nil {
			return "", fmt.Errorf("attaching the proof of %s: %w", p.Version, err)
		}
	}
	if err := remote.Tag(repo.Tag(p.Version), index, options...); err != nil {
		return "", fmt.Errorf("publishing %s: %w", p.Version, err)
	}
	return digest.String(), nil
}

func indexOf(dir, version string) (v1.ImageIndex, error) {
	all, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the release in %s: %w: make one with 'make release'", dir, err)
	}
	doc, err := all.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("reading the release in %s: %w", dir, err)
	}
	for _, d := range doc.Manifests {
		if d.Annotations[nameAnnotation] == version {
			return all.ImageIndex(d.Digest)
		}
	}
	return nil, fmt.Errorf("reading the release in %s: it holds no %s", dir, quoted(version))
}

// attach makes the referrer as cosign does: an image manifest by form, its one layer the bundle.
func attach(repo name.Repository, index v1.ImageIndex, bundle []byte, options []remote.Option) error {
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	size, err := index.Size()
	if err != nil {
		return err
	}
	m := v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: bundleType,
		Annotations: map[string]string{"dev.sigstore.bundle.content": "dsse-envelope", "dev.sigstore.bundle.predicateType": provenanceType},
		Subject:     &v1.Descriptor{MediaType: types.OCIImageIndex, Digest: digest, Size: size},
	}
	if m.Config, err = put(repo, []byte("{}"), emptyType, options); err != nil {
		return err
	}
	layer, err := put(repo, bundle, bundleType, options)
	if err != nil {
		return err
	}
	m.Layers = []v1.Descriptor{layer}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return remote.Put(repo.Digest("sha256:"+fmt.Sprintf("%x", sha256.Sum256(text))), referrer(text), options...)
}

func put(repo name.Repository, text []byte, kind types.MediaType, options []remote.Option) (v1.Descriptor, error) {
	layer := static.NewLayer(text, kind)
	digest, err := layer.Digest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	return v1.Descriptor{MediaType: kind, Digest: digest, Size: int64(len(text))}, remote.WriteLayer(repo, layer, options...)
}

// referrer is a manifest that is written as it is.
type referrer []byte

func (r referrer) RawManifest() ([]byte, error)        { return r, nil }
func (r referrer) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }
