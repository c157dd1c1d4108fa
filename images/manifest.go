package images

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"viiwork/images/papers"
)

// manifest is what a registry says of one image, held against the digest it was asked by.
type manifest struct {
	asked  string           // digest of the manifest or of the index over several platforms
	image  string           // digest of this platform's manifest
	config string           // digest of the configuration: Docker's id of the image
	layers map[string]int64 // bytes to fetch, by the first characters of the layer's digest, as Docker names them
	total  int64
	papers papers.Papers // where it was asked for by digest, and the registry gave the configuration
}

// layerName is how much of a layer's digest Docker tells while it fetches.
const layerName = 12

const (
	// askFor is how long a registry may take to say what an image is.
	askFor = 2 * time.Minute
	// imageMax is far more than any image has, in bytes.
	imageMax = 1 << 44
)

var errSlow = fmt.Errorf("it has not answered within %v", askFor)

// ask reads the manifest that ref names, of the platform that engines of this machine run on.
func (s *Stock) ask(ctx context.Context, ref name.Reference) (manifest, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askFor, errSlow)
	defer cancel()
	m, err := s.manifest(ctx, ref)
	if err != nil && context.Cause(ctx) == errSlow {
		return manifest{}, explain(ref, errSlow)
	}
	return m, err
}

func (s *Stock) manifest(ctx context.Context, ref name.Reference) (manifest, error) {
	platform := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	options := []remote.Option{remote.WithContext(ctx), remote.WithPlatform(platform)}
	if s.cfg.Transport != nil {
		options = append(options, remote.WithTransport(s.cfg.Transport))
	}
	desc, err := remote.Get(ref, options...)
	if err != nil {
		return manifest{}, explain(ref, err)
	}
	img, err := desc.Image()
	if err != nil {
		return manifest{}, fmt.Errorf("looking for %s in %s: %w", platform, ref, explain(ref, err))
	}
	digest, err := img.Digest()
	if err != nil {
		return manifest{}, explain(ref, err)
	}
	doc, err := img.Manifest()
	if err != nil {
		return manifest{}, explain(ref, err)
	}
	m := manifest{asked: desc.Digest.String(), image: digest.String(), config: doc.Config.Digest.String(), layers: map[string]int64{}}
	for _, layer := range doc.Layers {
		if layer.Size > imageMax {
			return manifest{}, tooLarge(ref, layer.Size)
		}
		if short := layer.Digest.Hex; len(short) >= layerName && layer.Size > 0 {
			m.layers[short[:layerName]] = layer.Size
		}
	}
	for _, size := range m.layers {
		if m.total += size; m.total > imageMax {
			return manifest{}, tooLarge(ref, m.total)
		}
	}
	if _, byDigest := ref.(name.Digest); byDigest {
		m.papers = papersOf(desc, img, m.asked)
	}
	return m, nil
}

// papersOf are an image's documents, none if they cannot be had: then members cannot have the image from here.
func papersOf(desc *remote.Descriptor, img v1.Image, digest string) papers.Papers {
	var p papers.Papers
	if desc.MediaType.IsIndex() {
		p.Index = desc.Manifest
	}
	doc, err := img.Manifest()
	if err != nil || doc.Config.Size > papers.MaxDocument {
		return papers.Papers{}
	}
	if p.Manifest, err = img.RawManifest(); err != nil {
		return papers.Papers{}
	}
	if p.Config, err = img.RawConfigFile(); err != nil {
		return papers.Papers{}
	}
	if _, err := p.Check(digest); err != nil {
		return papers.Papers{}
	}
	return p
}

func tooLarge(ref name.Reference, bytes int64) error {
	return fmt.Errorf("%s claims that %s has %d bytes, more than any image: do not use it; tell whoever runs that registry", ref.Context().RegistryStr(), ref, bytes)
}

// is reports whether id is this image: the configuration's digest, or, where Docker keeps images in containerd, that of
// the manifest or index.
func (m manifest) is(id string) bool { return id == m.config || id == m.image || id == m.asked }

// explain adds the way out to what a registry answers.
func explain(ref name.Reference, err error) error {
	registry := ref.Context().RegistryStr()
	var answer *transport.Error
	switch {
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s has no %s: %w: check the name", registry, ref, err)
	case errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden):
		return fmt.Errorf("%s does not give %s to everybody: %w: fetch it with 'docker login' and 'docker pull', and name it in full in llamacpp.image", registry, ref, err)
	case errors.As(err, &answer) && answer.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("%s has had enough of this address for now: %w: try again later", registry, err)
	case strings.Contains(err.Error(), "does not match requested digest"):
		return fmt.Errorf("%s gave something else than what was asked for: %w: do not use it; tell whoever runs that registry", registry, err)
	}
	return fmt.Errorf("asking %s for %s: %w: check the network and try again", registry, ref, err)
}
