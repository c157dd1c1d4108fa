package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// server is one open listener with the HTTP server behind it.
type server struct {
	listener net.Listener
	http     *http.Server
	socket   string // path of a unix socket to remove at the end
	kept     bool   // what started this process has the listener as well: connections wait there for the next run
	context  func(context.Context, net.Conn) context.Context

	leaving atomic.Bool   // each answer is its connection's last
	full    chan struct{} // closed when it takes no more connections

	mu    sync.Mutex // guards conns
	conns map[net.Conn]visit
}

// visit is where a connection is between two requests.
type visit struct {
	met bool      // a request of it has come to the handler, and is not answered in full yet
	due time.Time // what it has not brought by then, it does not bring
}

// server puts the node's handler behind l. Bodies and answers have no time limit of their own: a prefill may take
// minutes. Headers must come within 10 s, so that idle strangers do not pile up.
func (a *Appliance) server(l net.Listener) *server {
	s := &server{listener: l, full: make(chan struct{}), conns: map[net.Conn]visit{}}
	s.context = func(ctx context.Context, _ net.Conn) context.Context { return ctx }
	s.http = &http.Server{
		Handler:           s.watched(a.handler),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnState:         s.note,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return s.context(context.WithValue(ctx, connKey{}, c), c)
		},
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelWarn), // else it writes to the process's own log
	}
	return s
}

type connKey struct{}

// watched notes that a request has come, and tells clients of a server that leaves to use the connection no more.
func (s *server) watched(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
			s.mu.Lock()
			if _, open := s.conns[c]; open {
				s.conns[c] = visit{met: true}
			}
			s.mu.Unlock()
		}
		if s.leaving.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// note keeps the list of connections. One whose request has been read is not there yet: net/http closes it without an
// answer if it is told to shut down in the moment before it calls the handler.
func (s *server) note(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.conns[c] = visit{due: time.Now().Add(firstGrace)}
	case http.StateIdle:
		s.conns[c] = visit{due: time.Now().Add(lastGrace)}
	case http.StateClosed, http.StateHijacked:
		delete(s.conns, c)
	}
}

func (s *server) serve() error {
	err := s.http.Serve(s.listener)
	close(s.full)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving on %s: %w", s.listener.Addr(), err)
}

const (
	// firstGrace is how long a connection may take to bring its first request while the server leaves. Browsers open some for
	// nothing.
	firstGrace = time.Second
	// lastGrace is how long one that was used a moment ago may bring another: a client that keeps connections does not
	// repeat a question that met a closed one.
	lastGrace = 500 * time.Millisecond
)

// settled tells that the server may be shut down: it takes no more connections, and those it has are at work or bring
// nothing.
func (s *server) settled() bool {
	select {
	case <-s.full:
	default:
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.conns {
		if !v.met && time.Now().Before(v.due) {
			return false
		}
	}
	return true
}
