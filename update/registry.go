package update

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Media types of what a release is made of, and of a proof attached to it.
const (
	bundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"
	emptyType  = "application/vnd.oci.empty.v1+json"
)

// registry is a repository of an OCI registry.
type registry struct {
	repo    name.Repository
	options []remote.Option
}

func openRegistry(repo string, through http.RoundTripper) (*registry, error) {
	parsed, err := name.NewRepository(repo)
	if err != nil {
		return nil, err
	}
	if !strings.ContainsAny(repo, ".:") { // or it would be asked of Docker's registry
		return nil, errors.New("it names no registry")
	}
	r := &registry{repo: parsed}
	if through == nil {
		through = remote.DefaultTransport
	}
	r.options = append(r.options, remote.WithTransport(capped{through, parsed.Scheme() == "https"}))
	return r, nil
}

// capped bounds answers: the library reads lists of names, and tokens, to their end however long they are. It also bounds
// where an answer may send us; to private addresses the library itself does not go.
type capped struct {
	next   http.RoundTripper
	secure bool // the registry is asked by https, and so is whatever it names
}

func (c capped) RoundTrip(req *http.Request) (*http.Response, error) {
	if c.secure && req.URL.Scheme != "https" {
		return nil, fmt.Errorf("it sends us to %s without encryption", quoted(req.URL.Host))
	}
	resp, err := c.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	limit := int64(maxLayer) + 1 // a layer may come from elsewhere, by a path of any kind
	if strings.HasPrefix(req.URL.Path, "/v2/") && !strings.Contains(req.URL.Path, "/blobs/") {
		limit = maxAnswer
	}
	resp.Body = &cappedBody{resp.Body, limit}
	return resp, nil
}

type cappedBody struct {
	io.ReadCloser
	left int64
}

func (b *cappedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n, errors.New("the answer is too long")
	}
	return n, err
}

func (r *registry) with(ctx context.Context) []remote.Option {
	return append([]remote.Option{remote.WithContext(ctx)}, r.options...)
}

// versions reads page by page: a registry that never ends is left after so many names.
func (r *registry) versions(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	puller, err := remote.NewPuller(r.with(ctx)...)
	if err != nil {
		return nil, err
	}
	pages, err := puller.Lister(ctx, r.repo)
	if err != nil {
		return nil, r.explain(err)
	}
	var found []string
	for pages.HasNext() && len(found) < maxVersions {
		page, err := pages.Next(ctx)
		if err != nil {
			return nil, r.explain(err)
		}
		if len(page.Tags) == 0 {
			break
		}
		for _, tag := range page.Tags {
			if CheckVersion(tag) == nil {
				found = append(found, tag)
			}
		}
	}
	return found, nil
}

func (r *registry) resolve(ctx context.Context, what string) (v1.Hash, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	ref, err := r.ref(what)
	if err != nil {
		return v1.Hash{}, nil, err
	}
	desc, err := remote.Get(ref, r.with(ctx)...)
	if err != nil {
		return v1.Hash{}, nil, r.explain(err)
	}
	if !desc.MediaType.IsIndex() {
		return v1.Hash{}, nil, fmt.Errorf("%s is no release: it is a %s, not an index", ref, quoted(string(desc.MediaType)))
	}
	if len(desc.Manifest) > maxManifest {
		return v1.Hash{}, nil, fmt.Errorf("%s is no release: its index has %d bytes", ref, len(desc.Manifest))
	}
	return desc.Digest, desc.Manifest, checkDigest(desc.Manifest, desc.Digest)
}

func (r *registry) ref(what string) (name.Reference, error) {
	if strings.HasPrefix(what, "sha256:") {
		return name.NewDigest(r.repo.Name() + "@" + what)
	}
	return name.NewTag(r.repo.Name() + ":" + what)
}

// proofs asks for referrers by the API and by the tag that stands for it where registries have none: whoever answers
// the one may leave out what the other has.
func (r *registry) proofs(ctx context.Context, digest v1.Hash) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	subject := r.repo.Digest(digest.String())
	listed, err := remote.Referrers(subject, r.with(ctx)...)
	if err != nil {
		return nil, r.explain(err)
	}
	candidates, err := descriptors(listed)
	if err != nil {
		return nil, err
	}
	if tagged, err := remote.Index(r.repo.Tag("sha256-"+digest.Hex), r.with(ctx)...); err == nil {
		if more, err := descriptors(tagged); err == nil {
			candidates = append(candidates, more...)
		}
	}
	var bundles [][]byte
	seen := map[v1.Hash]bool{}
	for _, c := range candidates {
		if seen[c.Digest] || c.Digest.Algorithm != "sha256" {
			continue
		}
		if len(seen) == maxReferrers {
			break
		}
		seen[c.Digest] = true
		if text, err := r.bundle(ctx, c.Digest, digest); err == nil {
			bundles = append(bundles, text)
		}
	}
	return bundles, ctx.Err()
}

func descriptors(index v1.ImageIndex) ([]v1.Descriptor, error) {
	doc, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	return doc.Manifests, nil
}

// bundle reads the one layer of a referrer. What the manifest calls itself is not asked: registries disagree on it.
func (r *registry) bundle(ctx context.Context, digest, subject v1.Hash) ([]byte, error) {
	source := Source{at: r}
	text, err := source.readManifest(ctx, v1.Descriptor{Digest: digest, MediaType: types.OCIManifestSchema1})
	if err != nil {
		return nil, err
	}
	var m v1.Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, err
	}
	if m.Subject == nil || m.Subject.Digest != subject || len(m.Layers) != 1 || m.Layers[0].Size > maxBundle {
		return nil, errNone
	}
	content, err := r.open(ctx, m.Layers[0])
	if err != nil {
		return nil, err
	}
	defer content.Close()
	if text, err = readAll(content, maxBundle); err != nil {
		return nil, err
	}
	return text, checkDigest(text, m.Layers[0].Digest)
}

func (r *registry) open(ctx context.Context, what v1.Descriptor) (io.ReadCloser, error) {
	ref := r.repo.Digest(what.Digest.String())
	if what.MediaType.IsIndex() || what.MediaType.IsImage() {
		desc, err := remote.Get(ref, r.with(ctx)...)
		if err != nil {
			return nil, r.explain(err)
		}
		return io.NopCloser(strings.NewReader(string(desc.Manifest))), nil
	}
	layer, err := remote.Layer(ref, r.with(ctx)...)
	if err != nil {
		return nil, r.explain(err)
	}
	content, err := layer.Compressed()
	if err != nil {
		return nil, r.explain(err)
	}
	return content, nil
}

// explain adds the way out to what a registry answers.
func (r *registry) explain(err error) error {
	var answer *transport.Error
	if errors.As(err, &answer) { // 64 KiB of a stranger's text otherwise
		err = shortened{err}
	}
	switch {
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		return fmt.Errorf("asking %s: %w (%w): check update.source and the version", r.repo.Name(), errNone, err)
	case errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden):
		return fmt.Errorf("asking %s: %w: it does not give this to everybody: make the package public, or use a directory as update.source", r.repo.Name(), err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("asking %s: %w: it is too slow: try again later or use a mirror as update.source", r.repo.Name(), err)
	}
	return fmt.Errorf("asking %s: %w: check the network and try again", r.repo.Name(), err)
}

// shortened is an error whose words are a stranger's.
type shortened struct{ error }

func (s shortened) Error() string { return printable(s.error.Error()) }
func (s shortened) Unwrap() error { return s.error }
