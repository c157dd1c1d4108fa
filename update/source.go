package update

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Bounds of what a source may make us read.
const (
	maxManifest  = 1 << 20 // bytes, of an index or a manifest
	maxAnswer    = 4 << 20 // of any other answer but a layer
	maxLayer     = 128 << 20
	maxUnpacked  = 256 << 20
	maxVersions  = 10000 // names on offer that are looked at
	maxReferrers = 32    // candidates for a proof that are tried
)

// Patience with a source that drips: for a question, and for a layer as if it came at slowest.
const (
	askPatience = time.Minute
	slowest     = 64 << 10 // bytes a second
)

// errNone is a source's answer for what it does not have.
var errNone = errors.New("it has no such release")

// Source is a place where releases lie: a registry or a directory. Nothing it says is believed without proof.
type Source struct {
	name string
	at   place
}

// place is what a registry and a directory have in common. Each method bounds what it reads and how long.
type place interface {
	// versions lists names on offer, in any order.
	versions(ctx context.Context) ([]string, error)
	// resolve finds what a version, or a digest, stands for at this moment.
	resolve(ctx context.Context, name string) (v1.Hash, []byte, error)
	// proofs lists candidates for a bundle about a digest: some may be anybody's.
	proofs(ctx context.Context, digest v1.Hash) ([][]byte, error)
	// open reads a blob or manifest by its digest. Whoever reads checks that it is that.
	open(ctx context.Context, what v1.Descriptor) (io.ReadCloser, error)
}

// OpenSource takes a directory that exists or the name of a repository: "/media/usb/viiwork", "ghcr.io/owner/viiwork".
// transport is for registries; nil is the usual one.
func OpenSource(name string, transport http.RoundTripper) (*Source, error) {
	if stat, err := os.Stat(name); err == nil && stat.IsDir() {
		dir, err := openFolder(name)
		if err != nil {
			return nil, err
		}
		return &Source{name, dir}, nil
	}
	if strings.Contains(name, "://") { // which may hold a password: it is not repeated
		return nil, errors.New("opening the source of releases: it is a URL: write a repository as ghcr.io/owner/viiwork")
	}
	at, err := openRegistry(name, transport)
	if err != nil {
		return nil, fmt.Errorf("opening the source of releases %s: %w: name a directory that exists or a repository such as ghcr.io/owner/viiwork", quoted(name), err)
	}
	return &Source{name, at}, nil
}

// String is the name it was opened by.
func (s *Source) String() string { return s.name }

// local reports whether reading it needs no network.
func (s *Source) local() bool {
	at := s.at
	if kept, ok := at.(*shelved); ok {
		at = kept.place
	}
	_, ok := at.(*folder)
	return ok
}

// readManifest reads a manifest or an index and holds it against its digest.
func (s *Source) readManifest(ctx context.Context, what v1.Descriptor) ([]byte, error) {
	if what.Size > maxManifest {
		return nil, fmt.Errorf("a manifest of %d bytes", what.Size)
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	content, err := s.at.open(ctx, what)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	text, err := readAll(content, maxManifest)
	if err != nil {
		return nil, err
	}
	return text, checkDigest(text, what.Digest)
}

// checkDigest is the one thing that makes content of a stranger's ours.
func checkDigest(text []byte, want v1.Hash) error {
	if got := (v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", sha256.Sum256(text))}); got != want {
		return fmt.Errorf("what came is %s, not %s", got, want)
	}
	return nil
}
