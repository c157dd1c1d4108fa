package imagecopy

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"viiwork/appliance/mesh"
	"viiwork/images/papers"
)

// maxPieces is how many are in memory at one time.
const maxPieces = 2

// Saver is Docker, which alone can read an image's layers.
type Saver interface {
	// SaveImage reads an image in the form of 'docker save', and tells how many bytes its layers have, about.
	SaveImage(ctx context.Context, id string) (archive io.ReadCloser, size int64, err error)
	// ImageID is the id of an image that is there; else the error is fs.ErrNotExist.
	ImageID(ctx context.Context, ref string) (string, error)
}

// ServerConfig is what a Server is made of.
type ServerConfig struct {
	Verifier *mesh.Verifier
	Docker   Saver
	Papers   papers.Folder
	Dir      string // where images are laid out; what is in it goes
	// Find is Docker's id of the image that was checked for a digest.
	Find func(digest string) (id string, ok bool)
	// Free tells how many bytes may be written to Dir.
	Free func(dir string) (int64, error)
	// Member tells whether a living member of a secured mesh has the id.
	Member func(id string) bool
	Log    *slog.Logger // nil = nobody reads it
}

// Server gives members the images that were fetched here.
type Server struct {
	*mesh.Giver
	cfg   ServerConfig
	table table
}

// NewServer makes a Server, which answers GET at the package's three paths, for members alone. Its Run must run for anything
// but papers to be given away.
func NewServer(c ServerConfig) *Server {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: c, table: newTable(c)}
	s.Giver = mesh.NewGiver(mesh.GiveConfig{
		Verifier: c.Verifier, Member: c.Member, Only: "images are given to living members of a secured mesh only",
		AtOnce: maxPieces, Answer: s.answer,
	})
	return s
}

// Run lays images out until ctx ends, and leaves none of them behind.
func (s *Server) Run(ctx context.Context) error { return s.table.run(ctx) }

func (s *Server) answer(a *mesh.Asked) error {
	digest := a.URL.Query().Get("digest")
	switch a.URL.Path {
	case PapersPath:
		p, _, _, err := s.find(a.Context(), digest)
		if err != nil {
			return err
		}
		return a.GiveJSON(p)
	case PartsPath:
		return s.parts(a, digest)
	}
	from, size, ok := a.Piece(maxPiece)
	if !ok {
		return errAsk
	}
	f, err := s.table.open(digest, a.URL.Query().Get("layer"))
	if err != nil {
		return errNone
	}
	defer f.Close()
	b := make([]byte, size)
	n, err := f.ReadAt(b, from)
	if n == 0 || err != nil && !errors.Is(err, io.EOF) {
		return errNone
	}
	a.Give(b[:n])
	return nil
}

// find is an image that was checked here and that Docker still has.
func (s *Server) find(ctx context.Context, digest string) (papers.Papers, *papers.Image, string, error) {
	id, ok := s.cfg.Find(digest)
	if !ok {
		return papers.Papers{}, nil, "", errNone
	}
	p, image, err := s.cfg.Papers.Find(digest)
	if err != nil {
		return papers.Papers{}, nil, "", errNone
	}
	if _, err := s.cfg.Docker.ImageID(ctx, id); err != nil {
		return papers.Papers{}, nil, "", errNone
	}
	return p, image, id, nil
}

// parts begins to lay an image out, or tells how far that is.
func (s *Server) parts(a *mesh.Asked, digest string) error {
	_, image, id, err := s.find(a.Context(), digest)
	if err != nil {
		return err
	}
	l, err := s.table.of(job{digest: digest, id: id, image: image})
	if err != nil {
		return err
	}
	return a.GiveJSON(l)
}
