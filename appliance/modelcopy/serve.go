package modelcopy

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"viiwork/appliance/mesh"
)

const (
	// maxPieces is how many pieces are in memory at one time.
	maxPieces = 4
	// maxOffers is how many models' lists are remembered.
	maxOffers = 64
	// offerFor is how long an offer is believed: the owner may take the model out of the configuration, or name another folder.
	offerFor = time.Minute
	// codeNoModel tells a node without the model from one whose viiwork knows no such question.
	codeNoModel = "model_not_found"
)

// Source is where a model's files are on this machine. Paths are below Dir, of which nothing outside is opened.
type Source struct {
	Dir    string
	Shards []string
	MMProj string // "" = it has none
}

// ErrNone: this node has no such model, nor a file of that name.
var ErrNone = errors.New("this node has no such model")

// ServerConfig is what a Server is made of.
type ServerConfig struct {
	Verifier *mesh.Verifier
	// Member tells whether a living member of the mesh has the id.
	Member func(id string) bool
	// Find says where a model's files are. Errors are ErrNone, or in words for the asker.
	Find func(model string) (Source, error)
	// Digest makes the digest by which the mesh knows a model in these files.
	Digest func(ctx context.Context, files []string) (string, error)
	// Busy tells whether requests run, which copies make room for; nil = they never do.
	Busy func() bool
}

// Server gives models' files to members.
type Server struct {
	*mesh.Giver
	cfg    ServerConfig
	places places
	sums   sums
	pieces chan []byte   // as many as may be in memory
	lists  chan struct{} // holds one while a list is made: its files are read for it

	mu     sync.Mutex // guards what follows
	offers map[string]offer
}

// offer is a list and where its files are.
type offer struct {
	listed
	dir   string
	paths []string // below dir, in the list's order
	made  time.Time
}

// NewServer makes a Server, which answers GET at the package's three paths, for members alone. Its Run must run for anything
// to be copied to its end.
func NewServer(c ServerConfig) *Server {
	s := &Server{cfg: c, sums: newSums(c.Busy), pieces: make(chan []byte, maxPieces), lists: make(chan struct{}, 1), offers: map[string]offer{}}
	for range maxPieces {
		s.pieces <- nil // made when it is needed
	}
	s.Giver = mesh.NewGiver(mesh.GiveConfig{
		Verifier: c.Verifier, Member: c.Member, Only: "models are given to members of the mesh only", Answer: s.answer,
	})
	return s
}

// Run reads files for their SHA-256 until ctx ends.
func (s *Server) Run(ctx context.Context) error { return s.sums.run(ctx) }

var (
	errChanged = &mesh.No{Status: http.StatusConflict, Code: "file_changed", Message: "the file is another one now: begin anew"}
	errFull    = &mesh.No{Status: http.StatusTooManyRequests, Code: "busy", Message: "it gives as many models away as it may at one time"}
	errAsk     = &mesh.No{Status: http.StatusBadRequest, Code: "bad_request", Message: "that is no question for a model's files"}
)

func (s *Server) answer(a *mesh.Asked) error {
	q := a.URL.Query()
	model := q.Get("model")
	switch {
	case model == "" || len(model) > 2*maxName:
		return errAsk
	case a.URL.Path == ListPath:
		return s.list(a, model)
	}
	o, err := s.offer(a.Context(), model, false)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(q.Get("file"))
	if err != nil || n < 0 || n >= len(o.Files) {
		return errAsk
	}
	if o.Files[n].Tag != q.Get("tag") {
		if o, err = s.offer(a.Context(), model, true); err != nil || n >= len(o.Files) || o.Files[n].Tag != q.Get("tag") {
			return errChanged
		}
	}
	key := a.Peer.ID + " " + model
	switch a.URL.Path {
	case PiecePath:
		from, size, ok := a.Piece(maxPiece)
		if !ok || from >= o.Files[n].Size {
			return errAsk
		}
		if !s.places.take(key) {
			return errFull
		}
		_, _ = s.sums.of(o.dir, o.paths[n], o.Files[n].Tag) // begins it, so that it goes on beside the copy
		return s.piece(a, piece{o, n, from, size})
	case SumPath:
		text, err := s.sums.of(o.dir, o.paths[n], o.Files[n].Tag)
		if err != nil {
			return errChanged
		}
		if text != "" && n == len(o.Files)-1 {
			s.places.give(key)
		}
		return a.GiveJSON(summed{text})
	}
	return errAsk
}

// piece is one of the n-th file of an offer, from there on, and of so many bytes at most.
type piece struct {
	offer
	n    int
	from int64
	size int64
}

func (s *Server) list(a *mesh.Asked, model string) error {
	o, err := s.offer(a.Context(), model, true)
	if err != nil {
		return err
	}
	return a.GiveJSON(o.listed)
}

// offer is what was told of a model, or, anew, what is to be told now.
func (s *Server) offer(ctx context.Context, model string, anew bool) (offer, error) {
	s.mu.Lock()
	o, known := s.offers[model]
	s.mu.Unlock()
	if known && !anew && time.Since(o.made) < offerFor {
		return o, nil
	}
	select {
	case s.lists <- struct{}{}:
		defer func() { <-s.lists }()
	case <-ctx.Done():
		return offer{}, errFull
	}
	o, err := s.look(ctx, model)
	switch {
	case errors.Is(err, ErrNone):
		return offer{}, &mesh.No{Status: http.StatusNotFound, Code: codeNoModel, Message: "it has no model and no file below its models_dir of that name"}
	case err != nil:
		return offer{}, &mesh.No{Status: http.StatusConflict, Code: "not_to_be_had", Message: err.Error()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.offers {
		if len(s.offers) < maxOffers {
			break
		}
		delete(s.offers, other) // any one: it is made again when it is asked for
	}
	s.offers[model] = o
	return o, nil
}

// look makes a list from what lies on the disk.
func (s *Server) look(ctx context.Context, model string) (offer, error) {
	src, err := s.cfg.Find(model)
	if err != nil {
		return offer{}, err
	}
	o := offer{listed: listed{Model: model}, dir: src.Dir, paths: src.Shards, made: time.Now()}
	if src.MMProj != "" {
		o.paths = append(o.paths[:len(o.paths):len(o.paths)], src.MMProj)
	}
	var whole []string
	for i, path := range o.paths {
		f, info, err := openBelow(src.Dir, path)
		if err != nil {
			return offer{}, errors.New("its file cannot be read there, or lies outside of models_dir")
		}
		_ = f.Close()
		whole = append(whole, filepath.Join(src.Dir, path))
		sum, err := s.cfg.Digest(ctx, whole[i:])
		if err != nil {
			return offer{}, errors.New("its file cannot be read there")
		}
		o.Files = append(o.Files, file{Name: filepath.Base(path), Size: info.Size(), Digest: sum, Tag: tagOf(info), MMProj: i >= len(src.Shards)})
	}
	if o.Digest, err = s.cfg.Digest(ctx, whole[:len(src.Shards)]); err != nil {
		return offer{}, errors.New("its file cannot be read there")
	}
	return o, nil
}

// piece sends one. It has a place among those in memory until it has gone.
func (s *Server) piece(a *mesh.Asked, p piece) error {
	var buf []byte
	select {
	case buf = <-s.pieces:
		defer func() { s.pieces <- buf }()
	case <-a.Context().Done():
		return errFull
	}
	if buf == nil {
		buf = make([]byte, maxPiece)
	}
	began := time.Now()
	f, info, err := openBelow(p.dir, p.paths[p.n])
	if err != nil {
		return errChanged
	}
	defer f.Close()
	want := p.Files[p.n]
	n := min(p.size, want.Size-p.from)
	if tagOf(info) != want.Tag {
		return errChanged
	}
	if _, err := f.ReadAt(buf[:n], p.from); err != nil {
		return errChanged
	}
	a.W.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	a.Give(buf[:n])
	rest(a.Context(), s.cfg.Busy, time.Since(began)) // before the answer ends, and with it the next question comes
	return nil
}
