package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"
)

// Config is what an Engine is made of. It is not changed afterwards.
type Config struct {
	Node     string // name of this node, for logs
	StateDir string // holds engines/ (keys, 0700)
	// Spool holds slots/ (what engines save and are to restore, 0700). Engines are started with it, so that another one
	// makes none of an earlier run fit. "" = StateDir.
	Spool    string
	Runners  map[RunnerKind]Runner
	Dialect  Dialect
	Health   HealthConfig
	QueueMax int // waiters per model; 0 = 64, negative = none may wait
	// Placed tells whether processes sit on their cards; nil = cannot be known here.
	Placed func(ctx context.Context, pids []int, gpus []int, accel Accel) Placement
	// Room says, as an error, why a second engine of a backend of m on these cards cannot be held beside all that runs; it
	// may take seconds. nil = nobody knows, and there is none.
	Room func(ctx context.Context, m Model, gpus []int) error
	// BeforeSwitch is called when a backend is about to go to another engine that could read the slot files of this one; it
	// may save them until ctx ends. nil = nothing is saved.
	BeforeSwitch func(ctx context.Context, backend string)
	// CheckFile reads a model's file before an engine does and says what is wrong with it, or with what the model's
	// settings ask of it; nil = the engine finds out.
	CheckFile func(m Model) error
	// Changed is called when a seat was taken or given back or a backend changed its state, with locks held: it must not
	// wait and not call back. nil = nobody asks.
	Changed func()
	Log     *slog.Logger // nil = silent
}

// HealthConfig says how patient the engine is with its backends.
type HealthConfig struct {
	Interval    time.Duration // between health checks of a ready backend; 0 = 5 s
	Stall       time.Duration // no token and no progress for this long = silent; 0 = 120 s
	MaxRespawns int           // given up after this many restarts in a row; 0 = never
}

// Engine owns the models of this machine.
type Engine struct {
	cfg       Config
	transport *http.Transport
	turn      turn // to load
	changing  turn // to go from one engine to another
	probes    probes
	applied   chan struct{} // holds one: there are backends to launch
	gates     map[RunnerKind]chan struct{}

	mu       sync.Mutex // guards all below, the lines and the fields of backend that say so
	order    []*entry   // the wanted models, in the owner's order
	retiring []*backend // on their way out, in no order
	found    map[string]Process
	findErr  map[RunnerKind]error
	running  bool
	ended    bool // Run is over or ending: no more seats
	draining bool
	stop     bool // stop the engines when Run ends
}

// New checks cfg and makes an Engine that does nothing yet.
func New(cfg Config) (*Engine, error) {
	if cfg.Dialect == nil {
		return nil, errors.New("making the engine: no dialect given")
	}
	if len(cfg.Runners) > 0 {
		if cfg.StateDir == "" {
			return nil, errors.New("making the engine: no state folder given: set node.state_dir")
		}
		dir, err := filepath.Abs(cfg.StateDir)
		if err != nil {
			return nil, fmt.Errorf("finding the state folder: %w", err)
		}
		cfg.StateDir = dir
		if cfg.Spool == "" {
			cfg.Spool = dir
		}
		if cfg.Spool, err = filepath.Abs(cfg.Spool); err != nil {
			return nil, fmt.Errorf("finding the folder for slot files: %w", err)
		}
	}
	cfg.Health = cfg.Health.withDefaults()
	if cfg.QueueMax == 0 {
		cfg.QueueMax = 64
	}
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{
		cfg:       cfg,
		transport: newTransport(),
		applied:   make(chan struct{}, 1),
		gates:     map[RunnerKind]chan struct{}{},
		found:     map[string]Process{},
		findErr:   map[RunnerKind]error{},
	}
	for kind := range cfg.Runners {
		e.gates[kind] = make(chan struct{})
	}
	return e, nil
}

func (h HealthConfig) withDefaults() HealthConfig {
	if h.Interval <= 0 {
		h.Interval = 5 * time.Second
	}
	if h.Stall <= 0 {
		h.Stall = 120 * time.Second
	}
	return h
}

// newTransport is for engines only: no proxy, no compression, and no limit on the wait for an answer, since a prefill
// may take minutes (the stall clock watches over it).
//
// Every request has its own connection. llama-server promises to keep one open (Keep-Alive: timeout=5) and yet closes
// it after a streamed answer, without saying so: a second request on it is lost with an EOF now and then, and must not
// be repeated, since nobody can tell whether it was read.
func newTransport() *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		DisableCompression:     true,
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: 1 << 20,
	}
}

// Run adopts what an earlier run left, starts what is missing and watches over all of it. When ctx ends it returns
// after its own goroutines have; the engines run on, to be adopted by the next run, unless StopEngines(true) was called.
// It may be called once.
func (e *Engine) Run(ctx context.Context) error {
	e.mu.Lock()
	if e.running || e.ended {
		e.mu.Unlock()
		return errors.New("running the engine: it has run already")
	}
	e.running = true
	e.mu.Unlock()

	var wg sync.WaitGroup
	defer wg.Wait()
	e.clearUnwantedSlots()
	for kind, r := range e.cfg.Runners {
		wg.Go(func() { e.find(ctx, kind, r) })
	}
	for {
		e.launch(ctx, &wg)
		select {
		case <-ctx.Done():
			e.close()
			wg.Wait()
			e.sweep(ctx)
			e.clearAllSlots()
			return nil
		case <-e.applied:
		}
	}
}

// launch starts the life of every backend that has none yet.
func (e *Engine) launch(ctx context.Context, wg *sync.WaitGroup) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, en := range e.order {
		for _, b := range en.all() {
			if b.launched {
				continue
			}
			b.launched = true
			life, cancel := context.WithCancelCause(ctx)
			b.cancel = cancel
			wg.Go(func() {
				defer cancel(nil)
				b.live(ctx, life)
			})
		}
	}
}

// close ends the granting of seats for good.
func (e *Engine) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	for _, en := range e.order {
		en.line.Refuse(ErrDraining)
	}
}

// StopEngines says whether the engines end with Run.
func (e *Engine) StopEngines(on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stop = on
}

// Drain grants no more seats while on; who waits gets ErrDraining, who holds a lease finishes.
func (e *Engine) Drain(on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.draining = on
	e.cfg.Changed()
	if !on {
		return
	}
	for _, en := range e.order {
		en.line.Refuse(ErrDraining)
	}
}
