package releases

import (
	"errors"
	"io"
	"net/http"

	"viiwork/appliance/mesh"
	"viiwork/update"
)

// Where a member is asked: for the releases that it has, and for a piece of a part.
const (
	ListPath  = "/v1/releases"
	PiecePath = "/v1/releases/piece"
)

const (
	maxPiece  = 1 << 20 // bytes that are asked for at one time: a userspace network takes memory for what is under way
	maxList   = 8 << 20 // bytes of an answer to ListPath
	maxPieces = 2       // in memory at one time
)

// ServerConfig is what a Server is made of.
type ServerConfig struct {
	Shelf    *update.Shelf
	Verifier *mesh.Verifier
	Member   func(id string) bool // tells whether a living member of the mesh has the id
}

// Server gives members what was fetched here.
type Server struct {
	*mesh.Giver
	shelf *update.Shelf
}

// NewServer makes a Server. It answers GET at the package's two paths, for members alone.
func NewServer(c ServerConfig) *Server {
	s := &Server{shelf: c.Shelf}
	s.Giver = mesh.NewGiver(mesh.GiveConfig{
		Verifier: c.Verifier, Member: c.Member, Only: "releases are given to members of the mesh only",
		AtOnce: maxPieces, Answer: s.answer,
	})
	return s
}

var (
	errAsk  = &mesh.No{Status: http.StatusBadRequest, Code: "bad_request", Message: "that is no question for a release"}
	errNone = &mesh.No{Status: http.StatusNotFound, Code: "not_found", Message: "it has no such part of a release"}
)

func (s *Server) answer(a *mesh.Asked) error {
	if a.URL.Path != ListPath {
		return s.piece(a)
	}
	list, err := s.shelf.Offers()
	if err != nil {
		return err
	}
	return a.GiveJSON(offered{list})
}

// offered is the answer to a question for releases.
type offered struct {
	Releases []update.Offered `json:"releases"`
}

func (s *Server) piece(a *mesh.Asked) error {
	from, size, ok := a.Piece(maxPiece)
	if !ok {
		return errAsk
	}
	f, err := s.shelf.Open(a.URL.Query().Get("digest"))
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
