package imagecopy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/images/papers"
)

const (
	maxPieces = 2 // in memory at one time
	writeFor  = time.Minute
)

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
	cfg    ServerConfig
	pieces chan struct{} // as many as may be in memory
	table  table
}

// NewServer makes a Server. Its Run must run for anything but papers to be given away.
func NewServer(c ServerConfig) *Server {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{cfg: c, pieces: make(chan struct{}, maxPieces), table: newTable(c)}
}

// Run lays images out until ctx ends, and leaves none of them behind.
func (s *Server) Run(ctx context.Context) error { return s.table.run(ctx) }

// ServeHTTP answers GET at the package's three paths, for members alone.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	peer, err := s.cfg.Verifier.Check(r)
	if err != nil {
		mesh.WriteRefusal(w, err)
		return
	}
	body, err := s.answer(r, peer)
	if err == nil {
		rc := http.NewResponseController(w)
		_ = rc.SetWriteDeadline(time.Now().Add(writeFor))
		defer func() { _ = rc.SetWriteDeadline(time.Time{}) }() // the connection may serve another request
		mesh.WriteSigned(w, r, peer, body)
		return
	}
	var no *refusal
	if !errors.As(err, &no) {
		no = &refusal{http.StatusInternalServerError, "failed", "it could not answer"}
	}
	mesh.WriteError(w, no.status, no.code, no.message)
}

func (s *Server) answer(r *http.Request, peer mesh.Peer) ([]byte, error) {
	switch {
	case !s.cfg.Member(peer.ID):
		return nil, &refusal{http.StatusForbidden, "not_a_member", "images are given to living members of a secured mesh only"}
	case r.Method != http.MethodGet:
		return nil, &refusal{http.StatusMethodNotAllowed, "method_not_allowed", "images are asked for with GET"}
	}
	select {
	case s.pieces <- struct{}{}:
		defer func() { <-s.pieces }()
	default:
		return nil, errBusy
	}
	q := r.URL.Query()
	switch r.URL.Path {
	case PapersPath:
		p, _, _, err := s.find(r.Context(), q.Get("digest"))
		if err != nil {
			return nil, err
		}
		return json.Marshal(p)
	case PartsPath:
		return s.parts(r.Context(), q.Get("digest"))
	}
	from, err := strconv.ParseInt(q.Get("from"), 10, 64)
	size, odd := strconv.ParseInt(q.Get("size"), 10, 64)
	if err != nil || odd != nil || from < 0 || size < 1 || size > maxPiece {
		return nil, errAsk
	}
	f, err := s.table.open(q.Get("digest"), q.Get("layer"))
	if err != nil {
		return nil, errNone
	}
	defer f.Close()
	b := make([]byte, size)
	n, err := f.ReadAt(b, from)
	if n == 0 || err != nil && !errors.Is(err, io.EOF) {
		return nil, errNone
	}
	return b[:n], nil
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
func (s *Server) parts(ctx context.Context, digest string) ([]byte, error) {
	_, image, id, err := s.find(ctx, digest)
	if err != nil {
		return nil, err
	}
	l, err := s.table.of(job{digest: digest, id: id, image: image})
	if err != nil {
		return nil, err
	}
	return json.Marshal(l)
}
