package web

import (
	"context"
	"embed"
	"html/template"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"viiwork/appliance/status"
)

// Config is what a Site shows. All functions may be called at any time and by many.
type Config struct {
	Node    string
	Version string
	// Token is in every page, and whatever a page changes is asked for with it.
	Token string

	Board    func(context.Context) status.Board // the mesh now; waits a moment for members at most
	Request  func(ctx context.Context, id string) (status.Request, bool)
	Sessions func(n int) []status.Session
	Logs     func(ctx context.Context, to io.Writer, model string, tail int) error // of this node's engines; model "" = all
	Log      *slog.Logger                                                          // nil = silent
}

// Site answers for the pages. See the package comment.
type Site struct {
	cfg   Config
	pages map[string]*template.Template
	hub   *hub
	mux   *http.ServeMux
}

// Routes are the patterns, as net/http has them, that a Site answers.
var Routes = []string{
	"GET /mesh", "GET /models", "GET /sessions", "GET /requests", "GET /requests/{id}", "GET /kv", "GET /chat", "GET /logs", "GET /aliases",
	"GET /assets/{name}", "GET /api/events", "GET /api/board",
}

//go:embed pages/*.html
var pageFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// policy lets a page load and talk to nothing but the node it comes from, and be shown in no other page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// New makes a Site. It starts nothing.
func New(cfg Config) *Site {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Site{cfg: cfg, pages: parsePages(), hub: newHub(cfg.Board), mux: http.NewServeMux()}
	s.mux.HandleFunc("GET /{$}", s.page("home", nil))
	s.mux.HandleFunc("GET /mesh", s.page("mesh", nil))
	s.mux.HandleFunc("GET /models", s.page("models", nil))
	s.mux.HandleFunc("GET /sessions", s.page("sessions", s.sessions))
	s.mux.HandleFunc("GET /requests", s.page("requests", nil))
	s.mux.HandleFunc("GET /requests/{id}", s.page("request", s.request))
	s.mux.HandleFunc("GET /kv", s.page("kv", nil))
	s.mux.HandleFunc("GET /chat", s.page("chat", nil))
	s.mux.HandleFunc("GET /logs", s.page("logs", s.logs))
	s.mux.HandleFunc("GET /aliases", s.page("aliases", nil))
	s.mux.HandleFunc("GET /assets/{name}", asset)
	s.mux.HandleFunc("GET /api/events", s.hub.serve)
	s.mux.HandleFunc("GET /api/board", s.board)
	return s
}

// Run makes what /api/events tells, until ctx ends.
func (s *Site) Run(ctx context.Context) error { return s.hub.run(ctx) }

// ServeHTTP gives up who does not take a page in time: each that is left lying holds all of it in memory. The stream of
// changes has times of its own.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wanted + takeWithin)) // an in-memory server has none to set
	s.mux.ServeHTTP(w, r)
}

func (s *Site) board(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, s.cfg.Board(r.Context()))
}

// assets by name, with their types. Nothing else is given out.
var assetTypes = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

func asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	data, err := fs.ReadFile(assetFiles, "assets/"+name)
	kind := assetTypes[name[max(0, strings.LastIndexByte(name, '.')):]]
	if err != nil || kind == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache") // a node that was updated has others
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(data)
}

const (
	// wanted is how long a page may wait for what only members can tell.
	wanted = 2 * time.Second
	// takeWithin is how long a browser may take to take a page: half a megabyte at most, over a slow line.
	takeWithin = 30 * time.Second
)
