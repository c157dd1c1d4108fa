package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/kvshare"
	"viiwork/appliance/mesh"
	"viiwork/appliance/route"
	"viiwork/appliance/status"
	"viiwork/engine"
)

// Config is what a Gateway is made of. It is not changed afterwards.
type Config struct {
	Node    string // name of this node
	Version string
	Engine  *engine.Engine

	MaxBody      int64         // bytes of one request body; 0 = 64 MiB
	MaxInflight  int64         // bytes of all bodies held at one time; 0 = 512 MiB
	QueueTimeout time.Duration // a request without a home waits this long for a slot; 0 = 20 s
	WarmWait     time.Duration // one with a living home waits this long if it is more
	KeepAlive    time.Duration // the longest silence towards a streaming client; 0 = 8 s

	Hosts          []string // names accepted in the Host header beyond the safe ones: api.hosts and the MagicDNS name
	CORS           CORSConfig
	SessionHeaders []string // the operator's own, looked at last
	// Trusted tells whether a request may cancel others: it came by the socket, or from a page of ours. nil = nobody.
	Trusted func(*http.Request) bool
	// Home answers GET / where a person's browser asks; nil = as for a program that looks whether a server is there.
	Home http.Handler
	// Caller names the device that a request comes from, for people; "" = not known. nil = nobody is known.
	Caller func(*http.Request) string
	// Anywhere finds a request that this node or another remembers, with its plan if that is to be had; nil = this node alone is
	// looked at.
	Anywhere func(ctx context.Context, id string) (status.Request, bool)
	// Elsewhere has another node end a request that this one does not know; known tells whether any does. nil = none does.
	Elsewhere func(ctx context.Context, id string) (cancelled, known bool)
	Log       *slog.Logger     // nil = silent
	Now       func() time.Time // nil = time.Now

	QueueMax   int           // requests of one model that wait at this entry for a slot anywhere in the mesh; 0 = 64, negative = none may wait
	StaleAfter time.Duration // how long a member's word is believed, to be shown; 0 = 3 s
	// Policy chooses where requests go. Forget: where conversations are shall not count. Flat: nor shall, in classic, how fast
	// nodes are.
	Policy       route.Policy
	Forget, Flat bool
	// Known is where conversations are, here and at members; nil = one of its own.
	Known *mesh.Register
	// Caches takes conversations' caches along when these move; nil = nobody does.
	Caches *kvshare.Share
	// RatesFile keeps how fast engines are over a restart; "" = nothing does. Cards names what a backend runs on: what was
	// measured on other cards does not count; nil = all are alike.
	RatesFile string
	Cards     func(accel engine.Accel, gpus []int) string
	// News says that Report has changed though no slot has. It must not wait; nil = nobody asks.
	News func()
	// Digest tells a model file's digest, "" = unknown; nil = all are.
	Digest func(model string) string
	// Aliases maps each further name to its model. What it gives is not changed, neither by it later on; nil = none.
	Aliases func() map[string]string
	// Ear hears what becomes of requests.
	Ear Ear
	// SessionKey gives the key that session digests and prefixes are made with, the same on all nodes of the mesh. It must not
	// wait. nil, or none given: one of this process's own.
	SessionKey func() []byte
}

// Gateway answers inference requests. See the package comment.
type Gateway struct {
	cfg    Config
	log    *slog.Logger
	now    func() time.Time
	born   time.Time
	secret [32]byte // stands in for a session key, for the life of the process
	hosts  map[string]bool

	bodies   budget
	ledger   *ledger
	known    *mesh.Register
	rates    *rates
	flights  *flights
	inflight atomic.Int64

	joined     atomic.Pointer[Mesh]
	lineup     *lineup
	changed    change // of this node's slots
	seed       atomic.Uint64
	terms      terms        // of this node's engines
	turnedAway atomic.Int64 // when a refusal was last logged, Unix nanoseconds
}

// New makes a Gateway. It starts nothing.
func New(cfg Config) *Gateway {
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = 64 << 20
	}
	if cfg.MaxInflight <= 0 {
		cfg.MaxInflight = 512 << 20
	}
	if cfg.QueueTimeout <= 0 {
		cfg.QueueTimeout = 20 * time.Second
	}
	if cfg.KeepAlive <= 0 {
		cfg.KeepAlive = keepEvery
	}
	if cfg.QueueMax == 0 {
		cfg.QueueMax = 64
	}
	if cfg.StaleAfter <= 0 {
		cfg.StaleAfter = 3 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Known == nil {
		cfg.Known = mesh.NewRegister(mesh.RegisterConfig{Now: cfg.Now, Log: cfg.Log})
	}
	g := &Gateway{cfg: cfg, log: cfg.Log, now: cfg.Now, born: cfg.Now(), hosts: map[string]bool{}, ledger: newLedger(),
		known: cfg.Known, flights: newFlights(cfg.News), lineup: newLineup(cfg.QueueMax),
		rates: &rates{digest: cfg.Digest, models: map[string]*modelRates{}}}
	g.bodies.limit = cfg.MaxInflight
	_, _ = rand.Read(g.secret[:]) // never fails
	for _, h := range cfg.Hosts {
		g.hosts[hostName(h)] = true
	}
	return g
}

// Mount adds the gateway's routes to e, the checks that go before every route of e, and the table of errors.
func (g *Gateway) Mount(e *echo.Echo) {
	e.Pre(g.guard)
	e.HTTPErrorHandler = g.onError
	for _, rt := range routes {
		e.POST(rt.path, g.handle(rt))
	}
	e.GET("/v1/models", g.listModels)
	e.GET("/v1/models/*", g.getModel)
	e.GET("/v1/fleet/capacity", g.fleetCapacity)
	e.GET("/v1/model/info", g.modelInfo)
	e.GET("/api.json", g.catalogue)
	e.GET("/api/requests", g.listRequests)
	e.GET("/api/sessions", g.listSessions)
	e.GET("/api/requests/:id", g.getRequest)
	e.POST("/api/requests/:id/cancel", g.cancelRequest)
	e.GET("/", g.root)
	e.HEAD("/", g.root)
}

// guard runs before every route: who asks, by which name, from which page.
func (g *Gateway) guard(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		defer g.recovered(c)
		r, h := c.Request(), c.Response().Header()
		h.Set(headID, newID())
		h.Set("X-Content-Type-Options", "nosniff")
		if !g.knownHost(r) {
			return &Error{Status: http.StatusMisdirectedRequest, Code: "host_not_allowed", Message: "this node does not answer under the name in the Host header; use its address, or add the name to api.hosts"}
		}
		answered, err := g.admit(c.Response(), r)
		if answered || err != nil {
			return err
		}
		return next(c)
	}
}

func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// recovered keeps a panic in one request from ending the process. An answer under way is cut off: it must not look
// complete.
func (g *Gateway) recovered(c echo.Context) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	g.log.Error("a request handler panicked", "id", c.Response().Header().Get(headID), "path", c.Path(), "panic", panicText(p), "stack", string(debug.Stack()))
	if c.Response().Committed {
		panic(http.ErrAbortHandler)
	}
	WriteError(c, &Error{Status: http.StatusInternalServerError, Code: "internal_error", Message: "something went wrong inside this node; its log says what"})
}

// panicText says what a panic was about when that is certain to hold nothing of a request.
func panicText(p any) string {
	if err, ok := p.(interface{ RuntimeError() }); ok {
		return err.(error).Error()
	}
	return "a value of ours"
}

func (g *Gateway) onError(err error, c echo.Context) {
	if e := asError(err); e.Code == "internal_error" {
		g.log.Error("a request failed inside this node", "id", c.Response().Header().Get(headID), "path", c.Path(), "error", err)
	}
	WriteError(c, err)
}

// root is the first of the pages. Probes with which some clients look whether a server is there (HEAD, or asking for
// anything but html) are answered in a line.
func (g *Gateway) root(c echo.Context) error {
	c.Response().Header().Add("Vary", "Accept")
	if g.cfg.Home != nil && c.Request().Method != http.MethodHead && takesHTML(c.Request().Header.Get("Accept")) {
		g.cfg.Home.ServeHTTP(c.Response(), c.Request())
		return nil
	}
	return c.String(http.StatusOK, "viiwork "+g.cfg.Version+" on "+g.cfg.Node+"\n")
}

// takesHTML reads an Accept header as far as it matters here; who names nothing takes all.
func takesHTML(accept string) bool {
	for _, kind := range []string{"text/html", "text/*", "*/*"} {
		if strings.Contains(accept, kind) {
			return true
		}
	}
	return accept == ""
}

func (g *Gateway) listRequests(c echo.Context) error {
	n, err := wantedRows(c)
	if err != nil {
		return err
	}
	if c.QueryParam("running") == "1" {
		return c.JSON(http.StatusOK, g.ledger.going(n))
	}
	return c.JSON(http.StatusOK, g.Requests(n))
}

// wantedRows is how many rows of a list the client wants.
func wantedRows(c echo.Context) (int, error) {
	q := c.QueryParam("n")
	if q == "" {
		return 100, nil
	}
	n, err := strconv.Atoi(q)
	if err != nil || n < 0 {
		return 0, &Error{Status: http.StatusBadRequest, Param: "n", Message: "\"n\" must be a number of rows"}
	}
	return n, nil
}

func (g *Gateway) getRequest(c echo.Context) error {
	row, ok := g.Request(c.Param("id"))
	if (!ok || row.Plan == nil) && g.cfg.Anywhere != nil && !mesh.FromMember(c.Request()) {
		row, ok = g.cfg.Anywhere(c.Request().Context(), c.Param("id"))
	}
	if !ok {
		return errNoRequest
	}
	return c.JSON(http.StatusOK, row)
}

var errNoRequest = &Error{Status: http.StatusNotFound, Code: "request_not_found", Message: "there is no such request among the last ones; GET /api/requests lists them"}

func (g *Gateway) cancelRequest(c echo.Context) error {
	if g.cfg.Trusted == nil || !g.cfg.Trusted(c.Request()) {
		return &Error{Status: http.StatusForbidden, Code: "not_trusted", Message: "requests are cancelled from this machine or from its own pages only"}
	}
	cancelled := false
	if _, here := g.Request(c.Param("id")); here {
		cancelled = g.Cancel(c.Param("id"))
	} else if g.cfg.Elsewhere == nil || mesh.FromMember(c.Request()) {
		return errNoRequest
	} else if there, known := g.cfg.Elsewhere(c.Request().Context(), c.Param("id")); known {
		cancelled = there
	} else {
		return errNoRequest
	}
	return c.JSON(http.StatusOK, map[string]bool{"cancelled": cancelled})
}
