package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"viiwork/images/papers"
)

// ErrMoved is returned by [Stock.Pull] for a tag that names another image than the one this machine knows it by.
var ErrMoved = errors.New("the tag has moved")

// Daemon is Docker, as far as images go.
type Daemon interface {
	// Pull fetches ref, which names a digest. tell is called, if not nil, with the layer in Docker's short form and how
	// many of its bytes have come; -1 is all of them.
	Pull(ctx context.Context, ref string, tell func(layer string, bytes int64)) error
	// ImageID is the id of an image that is there; else the error is fs.ErrNotExist.
	ImageID(ctx context.Context, ref string) (string, error)
	// Tag gives an image a further name.
	Tag(ctx context.Context, id, ref string) error
	// Build makes an image named tag of a folder in tar form with a Dockerfile. It leaves nothing behind when it fails.
	Build(ctx context.Context, folder io.Reader, tag string, args map[string]string, tell func(line string)) error
}

// Config is what a Stock works with.
type Config struct {
	Docker    Daemon
	Book      *Book
	Papers    papers.Folder                                     // of what was fetched, for members; its zero = they are not kept
	Members   Members                                           // asked before registries, if Papers are kept; nil = they are not
	Loader    Loader                                            // needed for Members
	Room      func(ctx context.Context) (free int64, err error) // of Docker's disk, in bytes; nil = nobody knows
	Transport http.RoundTripper                                 // to registries; nil = the usual one
	Now       func() time.Time                                  // nil = time.Now
}

// Stock fetches and makes the images of one machine.
type Stock struct{ cfg Config }

// New builds a Stock. It asks nobody.
func New(cfg Config) *Stock {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Stock{cfg}
}

// Order says what to fetch.
type Order struct {
	Image  string                  // a short name or a reference
	Digest string                  // fetch this one, whatever was known; "" = what is known, else what the tag names now
	Tell   func(done, total int64) // bytes, from one goroutine at a time; nil = nobody watches
	Note   func(text string)       // told who gives the image, and who was passed by for what; nil = nobody listens
}

// Check tells what is wrong with what is to be fetched, and asks nobody.
func (o Order) Check() error {
	_, err := o.reference()
	return err
}

// reference reads what is to be fetched, and refuses what no registry can have.
func (o Order) reference() (name.Reference, error) {
	resolved, err := Resolve(o.Image)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(resolved, Local) {
		return nil, fmt.Errorf("no registry has %s: make it with 'viiwork images build %s'", resolved, strings.TrimPrefix(resolved, Local))
	}
	ref, err := canonical(resolved)
	if err != nil {
		return nil, err
	}
	// Of a short name the owner's word goes before the catalogue's.
	if d, ok := ref.(name.Digest); ok && resolved == o.Image && o.Digest != "" && d.DigestStr() != o.Digest {
		return nil, fmt.Errorf("%s names a digest already, and %s is another: give one of them", resolved, o.Digest)
	}
	return ref, nil
}

func (o Order) note(format string, args ...any) {
	if o.Note != nil {
		o.Note(fmt.Sprintf(format, args...))
	}
}

// Pull fetches an image by digest, checks it and keeps it in the book. Nothing is kept of one that is not what was asked
// for; [ErrMoved] says that the owner has to decide.
func (s *Stock) Pull(ctx context.Context, o Order) (Held, error) {
	ref, err := o.reference()
	if err != nil {
		return Held{}, err
	}
	target, err := s.target(ctx, ref, o)
	if err != nil {
		return Held{}, err
	}
	s.clear(ctx)
	f := fetch{Order: o, target: target, tag: tagFor(ref, target)}
	got, err := s.fromMembers(ctx, f)
	if ctx.Err() != nil {
		return Held{}, context.Cause(ctx)
	}
	asked := err != nil
	if asked {
		if got, err = s.fromRegistry(ctx, f); err != nil {
			return Held{}, err
		}
	}
	h := Held{Reference: ref.Name(), Digest: target.DigestStr(), ID: got.id, At: s.cfg.Now().UTC().Truncate(time.Second)}
	if err := s.cfg.Book.keep(h); err != nil {
		return h, err
	}
	if err := s.keepPapers(h.Digest, got.papers); err != nil {
		o.note("%v: other members cannot take the image from here", err)
	}
	if asked {
		s.catchUp(ctx, f)
	}
	return h, nil
}

// fetch is an order once it is known what it stands for.
type fetch struct {
	Order
	target name.Digest
	tag    string // by which Docker is to list the image
}

// arrived is an image that Docker has, under its tag, and that was checked.
type arrived struct {
	id     string
	papers papers.Papers
}

func (s *Stock) fromRegistry(ctx context.Context, f fetch) (arrived, error) {
	m, err := s.ask(ctx, f.target)
	if err != nil {
		return arrived{}, err
	}
	if s.cfg.Members != nil {
		f.note("from %s", f.target.RegistryStr())
	}
	if err := s.cfg.Docker.Pull(ctx, f.target.Name(), m.progress(f.Tell)); err != nil {
		return arrived{}, err
	}
	id, err := s.cfg.Docker.ImageID(ctx, f.target.Name())
	if err != nil {
		return arrived{}, fmt.Errorf("looking for what was fetched: %w", err)
	}
	if !m.is(id) {
		return arrived{}, fmt.Errorf("docker holds image %s where %s stands for %s: it is not used; remove it with 'docker image rm %s' and try again", id, f.target, m.config, f.target)
	}
	return arrived{id, m.papers}, s.cfg.Docker.Tag(ctx, id, f.tag)
}

// keepPapers lets members take the image from here; those of images that the book has forgotten go.
func (s *Stock) keepPapers(digest string, p papers.Papers) error {
	if s.cfg.Papers == (papers.Folder{}) || p.Manifest == nil {
		return nil
	}
	if err := s.cfg.Papers.Keep(digest, p); err != nil {
		return err
	}
	var digests []string
	for _, h := range s.cfg.Book.All() {
		digests = append(digests, h.Digest)
	}
	return s.cfg.Papers.Retain(digests)
}

// catchUpFor bounds how long a registry that has just answered is asked for papers.
const catchUpFor = 20 * time.Second

// catchUp makes the papers of images from the same registry that were fetched before papers were kept. What cannot be had now is
// tried again by the next fetch.
func (s *Stock) catchUp(ctx context.Context, f fetch) {
	if s.cfg.Papers == (papers.Folder{}) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpFor)
	defer cancel()
	for _, h := range s.cfg.Book.All() {
		ref, err := canonical(h.Reference)
		if _, _, none := s.cfg.Papers.Find(h.Digest); none == nil || err != nil || h.Digest == "" || ref.Context().RegistryStr() != f.target.RegistryStr() {
			continue
		}
		m, err := s.ask(ctx, ref.Context().Digest(h.Digest))
		if err != nil || m.papers.Manifest == nil || !m.is(h.ID) {
			continue
		}
		if s.cfg.Papers.Keep(h.Digest, m.papers) == nil {
			f.note("other members can take %s from here, too", h.Reference)
		}
	}
}

// target is the digest to fetch: the one given, the one in the reference, the one the book knows, or, at the first
// time, what the tag names now. With members, the one the book knows is fetched also where no registry tells of the tag.
func (s *Stock) target(ctx context.Context, ref name.Reference, o Order) (name.Digest, error) {
	if o.Digest != "" {
		d, err := name.NewDigest(ref.Context().Name() + "@" + o.Digest)
		if err != nil {
			return name.Digest{}, fmt.Errorf("reading the digest %q: %w: it looks like sha256: and 64 hexadecimal digits", o.Digest, err)
		}
		return d, nil
	}
	if d, ok := ref.(name.Digest); ok {
		return d, nil
	}
	known, ok := s.cfg.Book.Find(ref.Name())
	now, err := s.ask(ctx, ref)
	switch {
	case err != nil && (s.cfg.Members == nil || ctx.Err() != nil):
		return name.Digest{}, err
	case err != nil && ok && known.Digest != "":
		o.note("%v; it is fetched as it was first, on %s", err, known.At.Format(time.DateOnly))
		return ref.Context().Digest(known.Digest), nil
	case err != nil:
		return name.Digest{}, fmt.Errorf("%w; or name what a member has, as 'viiwork images ls --json' tells it there: --digest sha256:…", err)
	}
	if ok && known.Digest != "" && known.Digest != now.asked {
		return name.Digest{}, fmt.Errorf("%w: %s was %s when it was first fetched, on %s, and is %s now: take the new one with --digest %s if you trust it; the old one is still used",
			ErrMoved, ref, known.Digest, known.At.Format(time.DateOnly), now.asked, now.asked)
	}
	return ref.Context().Digest(now.asked), nil
}

// progress adds up what Docker tells of the layers.
func (m manifest) progress(tell func(done, total int64)) func(layer string, bytes int64) {
	if tell == nil {
		return nil
	}
	got := map[string]int64{}
	return func(layer string, bytes int64) {
		size, ok := m.layers[layer]
		if !ok {
			return
		}
		if bytes < 0 || bytes > size {
			bytes = size
		}
		if got[layer] == size { // it is being unpacked: what is told now is no transfer
			return
		}
		got[layer] = bytes
		done := int64(0)
		for _, n := range got {
			done += n
		}
		tell(done, m.total)
	}
}

// tagFor is the name by which Docker lists the image. One that had none would be taken for rubbish by 'docker image prune'.
func tagFor(ref name.Reference, target name.Digest) string {
	if tag, ok := ref.(name.Tag); ok {
		return tag.Name()
	}
	_, hex, _ := strings.Cut(target.DigestStr(), ":")
	return target.Context().Name() + ":viiwork-" + hex[:12]
}
