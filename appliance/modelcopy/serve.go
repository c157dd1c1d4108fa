package modelcopy

import (
	"context"
	"encoding/json"
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
	// writeFor is how long an asker may take for a piece, from which on it is taken for gone.
	writeFor = 2 * time.Minute
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

// NewServer makes a Server. Its Run must run for anything to be copied to its end.
func NewServer(c ServerConfig) *Server {
	s := &Server{cfg: c, sums: newSums(c.Busy), pieces: make(chan []byte, maxPieces), lists: make(chan struct{}, 1), offers: map[string]offer{}}
	for range maxPieces {
		s.pieces <- nil // made when it is needed
	}
	return s
}

// Run reads files for their SHA-256 until ctx ends.
func (s *Server) Run(ctx context.Context) error { return s.sums.run(ctx) }

// codeNoMember is the code of a refusal that may pass.
const codeNoMember = "not_a_member"

// refusal is an answer that is not what was asked for.
type refusal struct {
	status        int
	code, message string
}

func (r *refusal) Error() string { return r.message }

var (
	errChanged = &refusal{http.StatusConflict, "file_changed", "the file is another one now: begin anew"}
	errFull    = &refusal{http.StatusTooManyRequests, "busy", "it gives as many models away as it may at one time"}
	errAsk     = &refusal{http.StatusBadRequest, "bad_request", "that is no question for a model's files"}
)

// ServeHTTP answers GET at the package's three paths, for members alone.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	peer, err := s.cfg.Verifier.Check(r)
	if err != nil {
		mesh.WriteRefusal(w, err)
		return
	}
	if err := s.answer(w, r, peer); err != nil {
		writeRefusal(w, err)
	}
}

// answer returns an error if it has written nothing.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, peer mesh.Peer) error {
	q := r.URL.Query()
	model := q.Get("model")
	switch {
	case !s.cfg.Member(peer.ID):
		return &refusal{http.StatusForbidden, codeNoMember, "models are given to members of the mesh only"}
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		return &refusal{http.StatusMethodNotAllowed, "method_not_allowed", "a model's files are asked for with GET"}
	case model == "" || len(model) > 2*maxName:
		return errAsk
	case r.URL.Path == ListPath:
		return s.list(w, r, peer, model)
	}
	o, err := s.offer(r.Context(), model, false)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(q.Get("file"))
	if err != nil || n < 0 || n >= len(o.Files) {
		return errAsk
	}
	if o.Files[n].Tag != q.Get("tag") {
		if o, err = s.offer(r.Context(), model, true); err != nil || n >= len(o.Files) || o.Files[n].Tag != q.Get("tag") {
			return errChanged
		}
	}
	key := peer.ID + " " + model
	switch r.URL.Path {
	case PiecePath:
		from, err := strconv.ParseInt(q.Get("from"), 10, 64)
		size, odd := strconv.ParseInt(q.Get("size"), 10, 64)
		if err != nil || odd != nil || from < 0 || from >= o.Files[n].Size || size < 1 || size > maxPiece {
			return errAsk
		}
		if !s.places.take(key) {
			return errFull
		}
		_, _ = s.sums.of(o.dir, o.paths[n], o.Files[n].Tag) // begins it, so that it goes on beside the copy
		return s.piece(w, r, peer, asked{o, n, from, size})
	case SumPath:
		text, err := s.sums.of(o.dir, o.paths[n], o.Files[n].Tag)
		if err != nil {
			return errChanged
		}
		if text != "" && n == len(o.Files)-1 {
			s.places.give(key)
		}
		return writeSigned(w, r, peer, summed{text})
	}
	return errAsk
}

// asked is a piece: of the n-th file of an offer, from there on, and of so many bytes at most.
type asked struct {
	offer
	n    int
	from int64
	size int64
}

func (s *Server) list(w http.ResponseWriter, r *http.Request, peer mesh.Peer, model string) error {
	o, err := s.offer(r.Context(), model, true)
	if err != nil {
		return err
	}
	return writeSigned(w, r, peer, o.listed)
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
		return offer{}, &refusal{http.StatusNotFound, "model_not_found", "it has no model and no file below its models_dir of that name"}
	case err != nil:
		return offer{}, &refusal{http.StatusConflict, "not_to_be_had", err.Error()}
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
func (s *Server) piece(w http.ResponseWriter, r *http.Request, peer mesh.Peer, a asked) error {
	var buf []byte
	select {
	case buf = <-s.pieces:
		defer func() { s.pieces <- buf }()
	case <-r.Context().Done():
		return errFull
	}
	if buf == nil {
		buf = make([]byte, maxPiece)
	}
	began := time.Now()
	f, info, err := openBelow(a.dir, a.paths[a.n])
	if err != nil {
		return errChanged
	}
	defer f.Close()
	want := a.Files[a.n]
	n := min(a.size, want.Size-a.from)
	if tagOf(info) != want.Tag {
		return errChanged
	}
	if _, err := f.ReadAt(buf[:n], a.from); err != nil {
		return errChanged
	}
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(writeFor))
	defer func() { _ = rc.SetWriteDeadline(time.Time{}) }() // the connection may serve another request
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	mesh.WriteSigned(w, r, peer, buf[:n])
	rest(r.Context(), s.cfg.Busy, time.Since(began)) // before the answer ends, and with it the next question comes
	return nil
}

func writeSigned(w http.ResponseWriter, r *http.Request, peer mesh.Peer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	mesh.WriteSigned(w, r, peer, text)
	return nil
}

func writeRefusal(w http.ResponseWriter, err error) {
	var no *refusal
	if !errors.As(err, &no) {
		no = &refusal{http.StatusInternalServerError, "failed", "it could not answer"}
	}
	mesh.WriteError(w, no.status, no.code, no.message)
}
