package releases

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

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
	writeFor  = time.Minute
)

// ServerConfig is what a Server is made of.
type ServerConfig struct {
	Shelf    *update.Shelf
	Verifier *mesh.Verifier
	Member   func(id string) bool // tells whether a living member of the mesh has the id
}

// Server gives members what was fetched here.
type Server struct {
	cfg    ServerConfig
	pieces chan struct{} // as many as may be in memory
}

// NewServer makes a Server.
func NewServer(c ServerConfig) *Server { return &Server{c, make(chan struct{}, maxPieces)} }

// refusal is an answer that is not what was asked for.
type refusal struct {
	status        int
	code, message string
}

func (r *refusal) Error() string { return r.message }

var (
	errAsk  = &refusal{http.StatusBadRequest, "bad_request", "that is no question for a release"}
	errNone = &refusal{http.StatusNotFound, "not_found", "it has no such part of a release"}
	errBusy = &refusal{http.StatusTooManyRequests, "busy", "it gives as much away as it may at one time"}
)

// ServeHTTP answers GET at the package's two paths, for members alone.
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
		return nil, &refusal{http.StatusForbidden, "not_a_member", "releases are given to members of the mesh only"}
	case r.Method != http.MethodGet:
		return nil, &refusal{http.StatusMethodNotAllowed, "method_not_allowed", "releases are asked for with GET"}
	}
	select {
	case s.pieces <- struct{}{}:
		defer func() { <-s.pieces }()
	default:
		return nil, errBusy
	}
	if r.URL.Path == ListPath {
		list, err := s.cfg.Shelf.Offers()
		if err != nil {
			return nil, err
		}
		return json.Marshal(offered{list})
	}
	return s.piece(r)
}

// offered is the answer to a question for releases.
type offered struct {
	Releases []update.Offered `json:"releases"`
}

func (s *Server) piece(r *http.Request) ([]byte, error) {
	q := r.URL.Query()
	from, err := strconv.ParseInt(q.Get("from"), 10, 64)
	size, odd := strconv.ParseInt(q.Get("size"), 10, 64)
	if err != nil || odd != nil || from < 0 || size < 1 || size > maxPiece {
		return nil, errAsk
	}
	f, err := s.cfg.Shelf.Open(q.Get("digest"))
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
