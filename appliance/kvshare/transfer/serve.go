package transfer

import (
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"sync"
	"time"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/mesh"
)

const (
	// stallFor is how long either side waits for one chunk to go by.
	stallFor = 10 * time.Second
	// maxSaving is how many may wait for a manifest at one time: a state may have to be saved first.
	maxSaving = 16
)

// State is what a node has of a conversation.
type State struct {
	Name     string // of the replica, 32 hexadecimal digits: it keeps it wherever it goes
	Last     string // the last link of the conversation in it: who was asked for by another one may go on elsewhere
	Manifest replica.Manifest
}

// Source is where a node's own states are. Its methods are called from any goroutine.
type Source interface {
	// Manifest gives the newest state of the conversation that has the link. It may have to be saved first.
	Manifest(ctx context.Context, link string) (State, error)
	// Chunk reads a chunk into buf, which has room for the largest.
	Chunk(sum replica.Sum, buf []byte) ([]byte, error)
}

// Server answers other nodes out of a Source.
type Server struct {
	from     Source
	verifier *mesh.Verifier
	client   *Client
	places   *places
	saving   chan struct{}
	limit    limit
	guests   guests

	mu   sync.Mutex // guards what follows
	open []*entrance
}

// NewServer makes a Server. It has its direct path's addresses and certificate from the node's Client, and what it sends counts
// for [Client.Sends].
func NewServer(from Source, v *mesh.Verifier, c *Client) *Server {
	return &Server{
		from: from, verifier: v, client: c, limit: limit{bps: c.cfg.Rate},
		places: newPlaces(), saving: make(chan struct{}, maxSaving),
	}
}

// ServeHTTP answers POST at the package's three paths, for members alone.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	peer, err := s.verifier.Check(r)
	if err != nil {
		mesh.WriteRefusal(w, err)
		return
	}
	if !isPost(w, r) {
		return
	}
	body, err := io.ReadAll(io.LimitReader(peer.VerifyBody(r.Body), int64(maxAsk)+1))
	if err != nil {
		http.Error(w, "the body is not the one that was signed", http.StatusBadRequest)
		return
	}
	asked, ok := readAsk(body)
	switch {
	case r.URL.Path == ManifestPath && len(body) == linkDigits:
		s.manifest(w, r, peer, string(body))
	case r.URL.Path == DirectPath && len(body) == len(print{}):
		s.direct(w, r, peer, print(body))
	case r.URL.Path == ChunksPath && ok:
		s.chunks(w, r, peer.ID, asked)
	default:
		http.Error(w, "that is no question about a cache", http.StatusBadRequest)
	}
}

func isPost(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodPost {
		return true
	}
	w.Header().Set("Allow", http.MethodPost)
	http.Error(w, "caches are asked for with POST", http.StatusMethodNotAllowed)
	return false
}

func (s *Server) manifest(w http.ResponseWriter, r *http.Request, peer mesh.Peer, link string) {
	select {
	case s.saving <- struct{}{}:
		defer func() { <-s.saving }()
	default:
		http.Error(w, "as many wait for a cache as may: compute it", http.StatusServiceUnavailable)
		return
	}
	m, err := s.from.Manifest(r.Context(), link)
	if err != nil {
		http.Error(w, "there is no such cache here", http.StatusNotFound)
		return
	}
	mesh.WriteSigned(w, r, peer, m.Manifest.Append([]byte(m.Name+m.Last)))
}

// direct puts the member on the list of those who may come by the direct path, and says where that begins.
func (s *Server) direct(w http.ResponseWriter, r *http.Request, peer mesh.Peer, p print) {
	o := offer{print: s.client.id.print, addrs: s.addrs()}
	if len(o.addrs) == 0 || !s.client.trusts() {
		http.Error(w, "there is no direct path to this node", http.StatusNotFound)
		return
	}
	s.guests.expect(peer.ID, p, time.Now())
	mesh.WriteSigned(w, r, peer, o.text())
}

// chunks writes those that were asked for, one after the other, each behind its length.
func (s *Server) chunks(w http.ResponseWriter, r *http.Request, who string, a ask) {
	end, ok := s.places.begin(who)
	if !ok {
		http.Error(w, "as many answers are under way as a member may get", http.StatusServiceUnavailable)
		return
	}
	defer end()
	s.client.sends.wants(who, a.left)
	if s.places.enter(r.Context()) != nil {
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	if s.client.cfg.Tailnet && r.TLS == nil {
		defer s.client.breath.hold()()
	}
	out := &sending{w: w, rc: http.NewResponseController(w), server: s}
	began := time.Now()
	out.all(r.Context(), a.sums)
	s.client.sends.moved(out.sent, time.Since(began)-out.held)
	s.client.sends.wants(who, a.left-out.sent)
}

// sending is one answer of chunks.
type sending struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	server *Server
	sent   int64
	held   time.Duration // by the limit
}

// all gives the place back that its caller has taken.

func (y *sending) all(ctx context.Context, sums []byte) {
	defer func() { _ = y.rc.SetWriteDeadline(time.Time{}) }() // the connection may serve another request
	lost := false
	defer func() {
		if !lost {
			y.server.places.leave()
		}
	}()
	buf := make([]byte, replica.MaxChunk)
	for ; len(sums) > 0 && ctx.Err() == nil; sums = sums[sumBytes:] {
		b, err := y.server.from.Chunk(replica.Sum(sums[:sumBytes]), buf)
		if err != nil {
			b = nil // the asker is told, and may want the others
		}
		waits := time.Now()
		if y.server.limit.wait(ctx, len(b)) != nil {
			return
		}
		y.held += time.Since(waits)
		if lost, err = y.server.places.during(ctx, func() error { return y.write(b) }); err != nil {
			return
		}
	}
}

func (y *sending) write(b []byte) error {
	var head [headBytes]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(b)))
	_ = y.rc.SetWriteDeadline(time.Now().Add(stallFor))
	if _, err := y.w.Write(head[:]); err != nil {
		return err
	}
	n, err := y.w.Write(b)
	y.sent += int64(n)
	return err
}
