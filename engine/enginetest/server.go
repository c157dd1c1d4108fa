package enginetest

import (
	"bytes"
	"context"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Server is a fake llama-server. Make one with [New], end it with Close.
type Server struct {
	o     Options
	mux   *http.ServeMux
	ctx   context.Context // ends with Close: whatever waits gives up
	close context.CancelFunc
	born  time.Time

	loading    atomic.Bool  // set by SetLoading, beside LoadFor
	lastResult atomic.Int64 // when any task last had a result, Unix nanoseconds: see generation.gone
	fault      faultState
	seen       journal
	streams    streamStore
	slots      *slotTable
	loop       *loop

	listenOnce sync.Once
	listener   net.Listener
	http       *http.Server
}

// New makes a server. It listens from the first call of URL on, and needs no listener to be used by Handler.
func New(o Options) *Server {
	s := &Server{o: o.withDefaults(), mux: http.NewServeMux(), born: time.Now()}
	s.ctx, s.close = context.WithCancel(context.Background())
	s.slots, s.loop = newSlotTable(s.o), newLoop()
	s.seen.init(s.o.KeepRequests)
	s.fault.init()
	s.routes()
	return s
}

// URL is where the server listens, on a free port of the loopback address.
func (s *Server) URL() string {
	if err := s.listen("127.0.0.1:0"); err != nil {
		panic(err) // no test can go on without a loopback port
	}
	return "http://" + s.listener.Addr().String()
}

func (s *Server) listen(addr string) (err error) {
	s.listenOnce.Do(func() {
		if s.listener, err = net.Listen("tcp", addr); err != nil {
			return
		}
		s.http = &http.Server{Handler: s.Handler(), ReadHeaderTimeout: time.Minute, ConnContext: withConn, ConnState: closeStreamed}
		go s.http.Serve(trackingListener{s.listener})
	})
	return err
}

// Close drops all connections, ends all work and returns when the listener is gone.
func (s *Server) Close() {
	s.close()
	s.listenOnce.Do(func() {})
	if s.http != nil {
		s.http.Close()
	}
	s.seen.wait()
}

// Handler answers as the server does, for tests that bring their own connection.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// SetLoading makes the server answer as one that is still loading its model, or no longer so.
func (s *Server) SetLoading(on bool) { s.loading.Store(on) }

func (s *Server) isLoading() bool {
	return s.loading.Load() || s.o.LoadFor > 0 && time.Since(s.born) < s.scaled(s.o.LoadFor)
}

// scaled is how long d of the server's time takes on the wall clock.
func (s *Server) scaled(d time.Duration) time.Duration { return time.Duration(float64(d) / s.o.Speed) }

func (s *Server) routes() {
	s.mux.HandleFunc("GET /health", s.health)
	s.mux.HandleFunc("GET /v1/health", s.health)
	s.mux.HandleFunc("GET /props", s.props)
	s.mux.HandleFunc("POST /props", unsupported("changing global properties", "--props"))
	s.mux.HandleFunc("GET /models", s.models)
	s.mux.HandleFunc("GET /v1/models", s.models)
	s.mux.HandleFunc("GET /slots", s.listSlots)
	s.mux.HandleFunc("POST /slots/{id}", s.slotAction)
	s.mux.HandleFunc("GET /metrics", s.metrics)

	for path, f := range map[string]form{
		"/v1/chat/completions": chatForm{}, "/chat/completions": chatForm{},
		"/v1/completions": textForm{},
		"/completion":     nativeForm{}, "/completions": nativeForm{}, "/infill": infillForm{},
		"/v1/messages":  messagesForm{},
		"/v1/responses": responsesForm{}, "/responses": responsesForm{},
	} {
		s.mux.HandleFunc("POST "+path, s.inference(f))
	}
	s.mux.HandleFunc("POST /v1/messages/count_tokens", s.countTokens(messagesForm{}))
	s.mux.HandleFunc("POST /v1/chat/completions/input_tokens", s.countTokens(chatForm{}))
	s.mux.HandleFunc("POST /v1/responses/input_tokens", s.countTokens(responsesForm{}))
	s.mux.HandleFunc("POST /tokenize", s.tokenize)
	s.mux.HandleFunc("POST /detokenize", s.detokenize)
	s.mux.HandleFunc("POST /apply-template", s.applyTemplate)
	for _, path := range []string{"/v1/embeddings", "/embeddings", "/embedding"} {
		s.mux.HandleFunc("POST "+path, s.embeddings)
	}
	for _, path := range []string{"/v1/rerank", "/rerank", "/v1/reranking", "/reranking"} {
		s.mux.HandleFunc("POST "+path, s.rerank)
	}
	s.mux.HandleFunc("POST /v1/streams/lookup", s.lookupStreams)
	s.mux.HandleFunc("GET /v1/stream", s.resumeStream)
	s.mux.HandleFunc("DELETE /v1/stream", s.deleteStream)
}

// serve does what comes before any route: faults, headers, CORS, key, loading.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	f := s.fault.get()
	if f.Down || !s.takeBody(r) {
		panic(http.ErrAbortHandler)
	}
	defer s.seen.leave()
	isHealth := r.URL.Path == "/health" || r.URL.Path == "/v1/health"
	switch {
	case isHealth && f.HealthHang:
		s.fault.wait(s.ctx, r.Context(), func(f Faults) bool { return f.HealthHang })
		panic(http.ErrAbortHandler)
	case f.Garbage && !isHealth:
		garbage(w, r)
		return
	}
	h := w.Header()
	h.Set("Server", "llama.cpp")
	h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	if r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Credentials", "true")
		h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS")
		h.Set("Access-Control-Allow-Headers", "*")
		h.Set("Content-Type", "text/html")
		return
	}
	if !isHealth && !s.mayEnter(r) {
		sendError(w, apiError{Code: 401, Type: "authentication_error", Message: "Invalid API Key"})
		return
	}
	if s.isLoading() {
		sendError(w, apiError{Code: 503, Type: "unavailable_error", Message: "Loading model"})
		return
	}
	if _, pattern := s.mux.Handler(r); pattern == "" {
		sendError(w, apiError{Code: 404, Type: "not_found_error", Message: "File Not Found"})
		return
	}
	s.mux.ServeHTTP(w, r)
}

// heldBody is a body that has been read already.
type heldBody struct {
	*bytes.Reader
	data  []byte
	entry *Seen // in the journal
}

func (heldBody) Close() error { return nil }

func bodyOf(r *http.Request) []byte { return r.Body.(heldBody).data }

// takeBody reads the whole body, so that the client's leaving can be noticed from here on, and writes the request into
// the journal. It is false when the client left before.
func (s *Server) takeBody(r *http.Request) bool {
	var data []byte
	if r.Body != nil && r.ContentLength != 0 {
		buf := bytes.NewBuffer(make([]byte, 0, max(0, min(r.ContentLength, bodyLimit))+bytes.MinRead))
		if _, err := buf.ReadFrom(http.MaxBytesReader(nil, r.Body, bodyLimit)); err != nil {
			return false
		}
		data = buf.Bytes()
	}
	kept := data
	if !s.o.KeepBodies {
		kept = nil
	}
	r.Body = heldBody{bytes.NewReader(data), data, s.seen.add(r, len(data), kept)}
	return true
}

func (s *Server) mayEnter(r *http.Request) bool {
	if s.o.Key == "" {
		return true
	}
	key := r.Header.Get("Authorization")
	if key == "" {
		key = r.Header.Get("X-Api-Key")
	}
	key = strings.TrimPrefix(key, "Bearer ")
	return subtle.ConstantTimeCompare([]byte(key), []byte(s.o.Key)) == 1
}
