package update

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Bounds of a shelf.
const (
	shelfKeeps = 2       // releases, the last ones that were verified
	maxShelf   = 8 << 20 // bytes of its list
)

// Shelf is a folder with parts of releases that were fetched here, by their digests, for others to fetch from here: one
// download is enough for many machines. It holds what was asked for and no more, of the releases that were verified last.
// Whoever takes something from it, or from another one's, verifies all of it anew.
type Shelf struct{ dir string }

// OpenShelf is the shelf of a state directory. It makes nothing.
func OpenShelf(stateDir string) *Shelf { return &Shelf{filepath.Join(stateDir, "releases")} }

// Offered is a release as a shelf has it: its index and the proofs about that. Nothing of it is believed.
type Offered struct {
	Version string   `json:"version"`
	Digest  string   `json:"digest"` // sha256:…, of the index
	Index   []byte   `json:"index"`
	Proofs  [][]byte `json:"proofs"`
	From    string   `json:"from,omitempty"` // the node whose shelf it is, for people
}

var hexDigest = regexp.MustCompile(`^sha256:([0-9a-f]{64})$`)

func (s *Shelf) path(digest string) (string, error) {
	m := hexDigest.FindStringSubmatch(digest)
	if m == nil {
		return "", fmt.Errorf("%s is no digest", quoted(digest))
	}
	return filepath.Join(s.dir, m[1]), nil
}

// Open opens a part; fs.ErrNotExist if it is not here.
func (s *Shelf) Open(digest string) (*os.File, error) {
	path, err := s.path(digest)
	if err != nil {
		return nil, err
	}
	return openKept(path)
}

// take opens a part that is still what it was. One that is not, by a disk's fault or somebody's hand, is removed.
func (s *Shelf) take(digest string) (io.ReadCloser, error) {
	f, err := s.Open(digest)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); err == nil && got != digest {
		err = errors.Join(fs.ErrNotExist, os.Remove(f.Name()))
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Put takes a part that is size bytes long, or at most maxLayer where size is 0. What has another digest, or another length,
// leaves nothing.
func (s *Shelf) Put(digest string, size int64, from io.Reader) error {
	path, err := s.path(digest)
	if err != nil {
		return err
	}
	if size < 0 || size > maxLayer {
		return fmt.Errorf("a part of %d bytes", size)
	}
	limit := size
	if limit == 0 {
		limit = maxLayer
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("storing a part of a release: %w", err)
	}
	file, err := os.CreateTemp(s.dir, ".part-*")
	if err != nil {
		return fmt.Errorf("storing a part of a release: %w", err)
	}
	defer os.Remove(file.Name()) // fails once it has its name
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(file, sum), io.LimitReader(from, limit+1))
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("storing a part of a release: %w", err)
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != digest || n > limit || size > 0 && n != size {
		return fmt.Errorf("what came is %s with %d bytes, not %s", got, n, digest)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("storing a part of a release: %w", err)
	}
	return nil
}

// Offers are the releases that are here.
func (s *Shelf) Offers() ([]Offered, error) {
	text, err := readBounded(filepath.Join(s.dir, "list.json"), maxShelf)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []Offered
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err == nil && len(list) > shelfKeeps {
		err = fmt.Errorf("%d releases", len(list))
	}
	if err != nil {
		return nil, fmt.Errorf("reading what was fetched: %s: %w: remove the folder, it is made anew", s.dir, err)
	}
	return list, nil
}

// keep notes a release that was verified, and lets go of what belongs to none of the last ones.
func (s *Shelf) keep(v *Verified, proofs [][]byte) error {
	list, err := s.Offers()
	if err != nil {
		list = nil
	}
	digest := v.Digest()
	list = slices.DeleteFunc(list, func(o Offered) bool { return o.Version == v.version || o.Digest == digest })
	list = append(list, Offered{Version: v.version, Digest: digest, Index: v.index, Proofs: proofs})
	list = list[max(0, len(list)-shelfKeeps):]
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(s.dir, "list.json"), text); err != nil {
		return err
	}
	return s.prune(list)
}

// prune removes parts that no release on the list names.
func (s *Shelf) prune(list []Offered) error {
	wanted := map[string]bool{}
	for _, o := range list {
		for _, d := range indexed(o.Index) {
			wanted[d.Digest.Hex] = true
			text, err := readBounded(filepath.Join(s.dir, d.Digest.Hex), maxManifest)
			if err != nil {
				continue
			}
			var m v1.Manifest
			if json.Unmarshal(text, &m) == nil {
				for _, part := range append(m.Layers, m.Config) {
					wanted[part.Digest.Hex] = true
				}
			}
		}
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if isPart := hexDigest.MatchString("sha256:" + e.Name()); isPart && !wanted[e.Name()] {
			err = errors.Join(err, os.Remove(filepath.Join(s.dir, e.Name())))
		}
	}
	return err
}

// Members are other nodes' shelves.
type Members interface {
	// Offers are what they have. An error means that nobody could be asked.
	Offers(ctx context.Context) ([]Offered, error)
	// Fetch puts a part on this machine's own shelf, from whoever has it; fs.ErrNotExist if nobody does.
	Fetch(ctx context.Context, digest string, size int64) error
}

// shelved is a source whose parts are kept, and taken from members where they have them. What a version is, and its proof,
// is asked of the source itself, and of members only where that does not answer.
type shelved struct {
	place
	shelf   *Shelf
	members Members // nil = there are none
}

// offers are the members', as far as they can be what they say.
func (s *shelved) offers(ctx context.Context) []Offered {
	if s.members == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	all, err := s.members.Offers(ctx)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(o Offered) bool {
		m := hexDigest.FindStringSubmatch(o.Digest)
		return m == nil || CheckVersion(o.Version) != nil || len(o.Index) > maxManifest ||
			checkDigest(o.Index, v1.Hash{Algorithm: "sha256", Hex: m[1]}) != nil
	})
}

func (s *shelved) versions(ctx context.Context) ([]string, error) {
	found, err := s.place.versions(ctx)
	if err == nil {
		return found, nil
	}
	for _, o := range s.offers(ctx) {
		found = append(found, o.Version)
	}
	if len(found) > 0 {
		return found, nil
	}
	return nil, err
}

func (s *shelved) resolve(ctx context.Context, name string) (v1.Hash, []byte, error) {
	digest, index, err := s.place.resolve(ctx, name)
	if err == nil || errors.Is(err, errNone) {
		return digest, index, err
	}
	for _, o := range s.offers(ctx) {
		if o.Version == name || o.Digest == name {
			return v1.Hash{Algorithm: "sha256", Hex: o.Digest[len("sha256:"):]}, o.Index, nil
		}
	}
	return v1.Hash{}, nil, err
}

func (s *shelved) proofs(ctx context.Context, digest v1.Hash) ([][]byte, error) {
	found, err := s.place.proofs(ctx, digest)
	if err == nil && len(found) > 0 {
		return found, nil
	}
	for _, o := range s.offers(ctx) {
		for _, p := range o.Proofs {
			if o.Digest == digest.String() && len(p) <= maxBundle && len(found) < maxReferrers {
				found = append(found, p)
			}
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	return nil, err
}

// open takes a part from the shelf, else has it put there by a member, else by the source. A shelf that takes nothing, on a
// full disk, is passed by.
func (s *shelved) open(ctx context.Context, what v1.Descriptor) (io.ReadCloser, error) {
	digest := what.Digest.String()
	if f, err := s.shelf.take(digest); err == nil {
		return f, nil
	}
	if s.members != nil && s.members.Fetch(ctx, digest, what.Size) == nil {
		if f, err := s.shelf.take(digest); err == nil {
			return f, nil
		}
	}
	from, err := s.place.open(ctx, what)
	if err != nil {
		return nil, err
	}
	if s.shelf.Put(digest, what.Size, from) == nil {
		if f, err := s.shelf.take(digest); err == nil {
			from.Close()
			return f, nil
		}
	}
	from.Close() // read in part: it is begun anew
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return s.place.open(ctx, what)
}
