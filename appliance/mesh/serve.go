package mesh

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	capacityPath = "/v1/capacity"
	typeStream   = "application/x-ndjson"
	typeReport   = "application/json"

	// maxStreams bounds who follows this node at one time; at the promised 64 nodes it is 63.
	maxStreams = 256
	// writeFor is how long a follower may take nothing before its stream is cut.
	writeFor = 3 * time.Second
	// startFor is how long who asks waits for this node's first word.
	startFor = time.Second
	// sayAgain is how often one kind of refusal is logged.
	sayAgain = time.Minute
)

// streams is who follows this node, by sender. A new stream of one sender ends its old one: mostly that is half open
// since the sender's network broke.
type streams struct {
	mu   sync.Mutex
	open map[string]*stream
	said map[string]time.Time // last logged, by code of refusal
}

type stream struct{ end context.CancelFunc }

// ServeHTTP answers GET /v1/capacity, and with ?watch=1 goes on with every change.
func (p *Publisher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	peer, who, err := p.cfg.Verifier.admit(r)
	if err != nil {
		p.logRefusal(r, err)
		WriteRefusal(w, err)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		WriteError(w, http.StatusMethodNotAllowed, "method_not_allowed", "the capacity is read with GET")
		return
	}
	if peer.Wire < WireOldest {
		WriteError(w, http.StatusBadRequest, "wire_version", "this node no longer speaks that version: update the other one")
		return
	}
	e := p.told(r.Context())
	if e == nil {
		WriteError(w, http.StatusServiceUnavailable, "starting", "this node is still starting")
		return
	}
	select {
	case <-p.ended: // a stream that ends at once would be begun again and again
		WriteError(w, http.StatusServiceUnavailable, "ending", "this node is on its way down")
		return
	default:
	}
	w.Header().Set("Cache-Control", "no-store")
	if r.URL.Query().Get("watch") == "1" && peer.Wire >= 2 && r.Method == http.MethodGet {
		p.stream(w, r, who)
		return
	}
	w.Header().Set("Content-Type", typeReport)
	_, _ = w.Write(e.document(peer.Wire)) // the asker may have gone
}

// told is what there is to tell, which who asks at the moment of the start waits for: turned away, it would ask once a second
// for a while, and not follow. It is nil if there is nothing for too long.
func (p *Publisher) told(ctx context.Context) *edition {
	if e := p.now.Load(); e != nil {
		return e
	}
	patience := time.NewTimer(startFor)
	defer patience.Stop()
	select {
	case <-p.begun:
	case <-p.ended:
	case <-patience.C:
	case <-ctx.Done():
	}
	return p.now.Load()
}

// stream writes an edition, and then each newer one, and beats in between, until the follower or the node goes.
func (p *Publisher) stream(w http.ResponseWriter, r *http.Request, who string) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	leave, ok := p.streams.enter(who, cancel)
	if !ok {
		WriteError(w, http.StatusServiceUnavailable, "too_many_streams", "as many follow this node as may: ask without watch")
		return
	}
	defer leave()
	w.Header().Set("Content-Type", typeStream)
	w.WriteHeader(http.StatusOK)
	rc := http.NewResponseController(w)
	defer func() { _ = rc.SetWriteDeadline(time.Time{}) }() // the connection may serve another request
	write := func(out []byte) bool {
		_ = rc.SetWriteDeadline(time.Now().Add(writeFor)) // an in-memory server has none to set
		if _, err := w.Write(out); err != nil {
			return false
		}
		return rc.Flush() == nil
	}
	var known *teller
	if r.URL.Query().Get("residents") == "1" && p.cfg.Known != nil {
		known = &teller{}
	}
	e := p.now.Load()
	timer := time.NewTimer(heartbeat)
	defer timer.Stop()
	for out := e.whole; ; {
		first := known != nil && !known.begun
		if out != nil && !write(out) || known != nil && !all(known.lines(e.held, p.cfg.Known.cfg.Now()), write) {
			return
		}
		if first && !write(encode(line{Beat: &beat{Seq: e.report.Seq}})) { // so that the follower knows that this was all
			return
		}
		timer.Reset(heartbeat)
		select {
		case <-ctx.Done():
			return
		case <-p.ended:
			return
		case <-e.next:
			was := e.report.Seq
			switch e = p.now.Load(); {
			case e.report.Seq == was:
				out = nil
			case e.report.Seq == was+1 && e.change != nil:
				out = e.change
			default:
				out = e.whole
			}
		case <-timer.C:
			out = encode(line{Beat: &beat{Seq: e.report.Seq}})
		}
	}
}

func all(lines [][]byte, write func([]byte) bool) bool {
	for _, l := range lines {
		if !write(l) {
			return false
		}
	}
	return true
}

// enter makes room for a stream of who; leave gives it back.
func (s *streams) enter(who string, end context.CancelFunc) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, again := s.open[who]
	if !again && len(s.open) >= maxStreams {
		return nil, false
	}
	if again {
		old.end()
	}
	own := &stream{end: end}
	s.open[who] = own
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[who] == own {
			delete(s.open, who)
		}
	}, true
}

// logRefusal names who was turned away, each kind at most once a minute: strangers must not fill the log.
func (p *Publisher) logRefusal(r *http.Request, err error) {
	var refused *Refusal
	if !errors.As(err, &refused) || refused.Code == codeUnsigned {
		return
	}
	p.streams.mu.Lock()
	last, said := p.streams.said[refused.Code]
	if again := !said || time.Since(last) >= sayAgain; !again {
		p.streams.mu.Unlock()
		return
	}
	p.streams.said[refused.Code] = time.Now()
	p.streams.mu.Unlock()
	p.cfg.Log.Warn("another node was refused", "address", r.RemoteAddr, "code", refused.Code, "why", refused.Error(), "skew", refused.Skew)
}
