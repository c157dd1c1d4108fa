package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"viiwork/images/papers"
)

// Members are machines that may have fetched an image before. Nothing they give is believed: each byte is held against the
// digest that was asked for.
type Members interface {
	// Offers tells who has the image of a digest.
	Offers(ctx context.Context, digest string) ([]Offer, error)
	// Parts has a member lay out the layers of an image, and tells what there is to fetch.
	Parts(ctx context.Context, member, digest string) ([]papers.Part, error)
	// Piece brings bytes of such a layer, as many as were asked for.
	Piece(ctx context.Context, p Piece) ([]byte, error)
}

// Offer is what a member says that it has.
type Offer struct {
	Member string        `json:"member"` // its name
	Papers papers.Papers `json:"papers"`
}

// Piece is a question for some bytes of a layer.
type Piece struct {
	Member string
	Image  string // digest of the image
	Layer  string // digest of the layer, as Parts named it
	From   int64
	Size   int64 // at most MaxPiece
}

// MaxPiece is how many bytes are asked for at one time: they are in memory on both sides.
const MaxPiece = 1 << 20

// Loader is Docker, as far as images go that come from no registry.
type Loader interface {
	// LoadImage takes an archive in the form of 'docker save'.
	LoadImage(ctx context.Context, archive io.Reader) error
	// ImageContent is an image's id, and the digests of its layers' archives.
	ImageContent(ctx context.Context, ref string) (id string, layers []string, err error)
	// ImageConfig says what runs in an image, as JSON.
	ImageConfig(ctx context.Context, ref string) ([]byte, error)
	// ForgetImage takes a name from an image, and what nothing else holds of it.
	ForgetImage(ctx context.Context, ref string) error
}

var errNobody = fmt.Errorf("no member has it: %w", fs.ErrNotExist)

// fromMembers tries one after the other. What is not the image leaves nothing.
func (s *Stock) fromMembers(ctx context.Context, f fetch) (arrived, error) {
	if s.cfg.Members == nil || s.cfg.Papers == (papers.Folder{}) {
		return arrived{}, errNobody
	}
	digest := f.target.DigestStr()
	if p, image, err := s.cfg.Papers.Find(digest); err == nil {
		if id, ok := s.here(ctx, digest, image); ok {
			return arrived{id, p}, s.cfg.Docker.Tag(ctx, id, f.tag)
		}
	}
	offers, err := s.cfg.Members.Offers(ctx, digest)
	if err != nil {
		f.note("members were not asked: %v", err)
		return arrived{}, err
	}
	for _, o := range offers {
		id, err := s.fromMember(ctx, f, o)
		if err == nil {
			return arrived{id, o.Papers}, nil
		}
		if ctx.Err() != nil {
			return arrived{}, context.Cause(ctx)
		}
		if errors.Is(err, errRoom) {
			f.note("no member is asked: %v", err)
			return arrived{}, err
		}
		f.note("%s does not give it: %v; nothing of that is kept", o.Member, err)
	}
	return arrived{}, errNobody
}

// here is Docker's id of an image that it holds: the digest of its configuration or, where it keeps images in containerd,
// the one by which it was checked before.
func (s *Stock) here(ctx context.Context, digest string, image *papers.Image) (id string, ok bool) {
	known, _ := s.cfg.Book.Digest(digest)
	for _, id := range []string{image.Config, known.ID} {
		if id == "" {
			continue
		}
		if got, err := s.cfg.Docker.ImageID(ctx, id); err == nil && got == id {
			return id, true
		}
	}
	return "", false
}

// fromMember returns the id of the image that Docker has under its tag then.
func (s *Stock) fromMember(ctx context.Context, f fetch, o Offer) (id string, err error) {
	digest := f.target.DigestStr()
	image, err := o.Papers.Check(digest)
	if err != nil {
		return "", err
	}
	if id, ok := s.here(ctx, digest, image); ok {
		return id, s.cfg.Docker.Tag(ctx, id, f.tag)
	}
	f.note("from %s, which reads the image out of its Docker first", o.Member)
	parts, err := s.cfg.Members.Parts(ctx, o.Member, digest)
	if err != nil {
		return "", err
	}
	if err := image.Match(parts); err != nil {
		return "", err
	}
	if err := s.room(ctx, papers.Total(parts)); err != nil {
		return "", err
	}
	// What was loaded has this name until it was looked at: nothing is started by it, and it moves no other.
	name, forget, err := s.arrival(ctx, digest)
	if err != nil {
		return "", err
	}
	defer forget()
	open := s.pieces(ctx, f, o.Member, papers.Total(parts))
	if err := s.load(ctx, func(to io.Writer) error { return image.Archive(name, parts, open, to) }); err != nil {
		return "", err
	}
	if id, err = s.loaded(ctx, image, name); err != nil {
		return "", err
	}
	return id, s.cfg.Docker.Tag(ctx, id, f.tag)
}

var errRoom = errors.New("docker's disk is too full")

// keepFree is what a load leaves free of Docker's disk.
const keepFree = 1 << 30

// room refuses what Docker's disk cannot hold: it has the archive beside what it makes of it.
func (s *Stock) room(ctx context.Context, bytes int64) error {
	if s.cfg.Room == nil {
		return nil
	}
	free, err := s.cfg.Room(ctx)
	if err != nil || free >= 2*bytes+keepFree {
		return nil // a disk that cannot be looked at is Docker's to judge
	}
	const MiB = 1 << 20
	return fmt.Errorf("%w: to load it takes %d MiB for a while, and %d MiB are free: make room there ('docker system df' shows what takes it)", errRoom, (2*bytes+keepFree)/MiB, free/MiB)
}

var errEnded = errors.New("docker reads no more")

// load hands Docker an archive while archive makes it.
func (s *Stock) load(ctx context.Context, archive func(to io.Writer) error) error {
	from, to := io.Pipe()
	made := make(chan error, 1)
	go func() {
		err := archive(to)
		to.CloseWithError(err)
		made <- err
	}()
	err := s.cfg.Loader.LoadImage(ctx, from)
	from.CloseWithError(errEnded)
	if fault := <-made; fault != nil && !errors.Is(fault, errEnded) {
		return fault // what Docker says follows from it
	}
	return err
}

// loaded is the id of what Docker has under a name, if that is the image.
func (s *Stock) loaded(ctx context.Context, image *papers.Image, name string) (string, error) {
	id, content, err := s.cfg.Loader.ImageContent(ctx, name)
	if err != nil {
		return "", fmt.Errorf("looking for what was loaded: %w", err)
	}
	if id == image.Config {
		return id, nil
	}
	config, err := s.cfg.Loader.ImageConfig(ctx, name)
	if err != nil {
		return "", fmt.Errorf("looking for what was loaded: %w", err)
	}
	if !slices.Equal(content, image.Content()) || !image.Runs(config) {
		return "", fmt.Errorf("docker holds %s, which is not what was loaded", id)
	}
	return id, nil
}

// pieces opens a member's layers, and tells how far all of them have come.
func (s *Stock) pieces(ctx context.Context, f fetch, member string, total int64) papers.Opener {
	done := int64(0)
	return func(p papers.Part) (io.ReadCloser, error) {
		ask := Piece{Member: member, Image: f.target.DigestStr(), Layer: p.Digest}
		return io.NopCloser(&reader{size: p.Size, next: func(at, size int64) ([]byte, error) {
			ask.From, ask.Size = at, size
			b, err := s.cfg.Members.Piece(ctx, ask)
			if err == nil && int64(len(b)) != size {
				err = fmt.Errorf("%d bytes came in place of %d", len(b), size)
			}
			if done += int64(len(b)); err == nil && f.Tell != nil {
				f.Tell(done, total)
			}
			return b, err
		}}), nil
	}
}

// reader reads piece by piece.
type reader struct {
	size int64
	next func(at, size int64) ([]byte, error)

	at   int64
	rest []byte
}

func (r *reader) Read(b []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.at >= r.size {
			return 0, io.EOF
		}
		var err error
		if r.rest, err = r.next(r.at, min(MaxPiece, r.size-r.at)); err != nil {
			return 0, err
		}
	}
	n := copy(b, r.rest)
	r.at, r.rest = r.at+int64(n), r.rest[n:]
	return n, nil
}
