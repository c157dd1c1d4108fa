package serf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	hserf "github.com/hashicorp/serf/serf"
)

// DefaultPort is where gossip is heard, tcp and udp.
const DefaultPort = 7946

// ErrNameTaken is returned by Run when a living machine already has this node's name; the text says which.
var ErrNameTaken = errors.New("the name is taken")

// ErrIDTaken is returned by Run when a living machine already has this node's ID, as after copying a state folder.
var ErrIDTaken = errors.New("the id is taken")

// ErrOtherSecret is wrapped by Join where a node understands nothing of what this one sends.
var ErrOtherSecret = errors.New("it has another mesh secret")

// Config is what a Cluster is made of. It is not changed afterwards.
type Config struct {
	ID       string         // stable id of this device: letters, digits, ".", "_", "-"; at most 64
	Name     string         // node.name: lower case letters, digits, "-"; at most 32
	API      netip.AddrPort // where this node answers HTTP; at the Network's address
	Version  string         // of the program
	Wire     int            // version of the wire forms it speaks, from 1
	Port     int            // of gossip, tcp and udp; 0 = DefaultPort
	StateDir string         // holds serf/, the members to find again after a restart; "" = not kept
	Key      []byte         // 32 bytes encrypt all gossip; nil = an open mesh
	Prev     []byte         // a second key that is understood while the secret changes; nil = none
	Enforce  Enforce        // how strictly the key is demanded; "" = EnforceFull
	Network  Network
	Log      *slog.Logger // nil = silent
}

// Cluster is this node's view of the mesh.
type Cluster struct {
	cfg      Config
	log      *slog.Logger
	warnings warnings
	members  atomic.Pointer[[]Member] // written by Run's goroutine alone
	own      netip.AddrPort           // where this node is heard; set before the library starts
	twins    chan Member              // our own ID, heard of at another address; holds one
	ready    chan struct{}            // closed once lib is set
	stop     chan struct{}            // closed by Stop
	ended    chan struct{}            // closed when Run is over
	stopOnce sync.Once
	joining  sync.Mutex // one Join at a time
	ringing  sync.Mutex // one change of the keys at a time

	mu      sync.Mutex // guards what follows
	running bool
	over    bool // no more events
	lib     *hserf.Serf
	ring    *ring // nil = open mesh
	subs    map[*subscriber]struct{}
}

// New checks cfg, reporting all its faults at once, and makes a Cluster that does nothing yet.
func New(cfg Config) (*Cluster, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("making the mesh membership: %w", err)
	}
	if cfg.Port == 0 {
		cfg.Port = DefaultPort
	}
	if cfg.Enforce == "" {
		cfg.Enforce = EnforceFull
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c := &Cluster{
		cfg:   cfg,
		log:   cfg.Log,
		twins: make(chan Member, 1),
		ready: make(chan struct{}),
		stop:  make(chan struct{}),
		ended: make(chan struct{}),
		subs:  map[*subscriber]struct{}{},
	}
	c.members.Store(new([]Member))
	return c, nil
}

// Ready is closed once this node hears gossip and may Join others.
func (c *Cluster) Ready() <-chan struct{} { return c.ready }

// Run listens, finds the members of the last run again and watches until ctx ends; then it takes leave of the others,
// which needs a second and at most five. It returns nil then and after Stop, and otherwise why this node cannot be in
// the mesh: ErrNameTaken, ErrIDTaken, or a port it cannot have. It may be called once.
func (c *Cluster) Run(ctx context.Context) error {
	c.mu.Lock()
	if c.running {
		c.mu.Unlock()
		return errors.New("running the mesh membership: it has run already")
	}
	c.running = true
	c.mu.Unlock()
	defer c.close()

	start := time.Now()
	c.own = netip.AddrPortFrom(c.cfg.Network.Addr().Unmap(), uint16(c.cfg.Port))
	t, err := c.listen(ctx)
	if err != nil {
		return err
	}
	events := make(chan hserf.Event, eventBuffer)
	lib, err := c.create(t, events, start)
	if err != nil {
		t.Shutdown()
		return fmt.Errorf("starting gossip: %w", err)
	}
	w := &watch{c: c, lib: lib, events: events, self: c.self(t.addr, start)}
	w.refresh()
	c.mu.Lock()
	c.lib = lib
	c.mu.Unlock()
	close(c.ready)
	c.log.Info("gossip is up", "id", c.cfg.ID, "addr", t.addr.String(), "encrypted", len(c.cfg.Key) > 0)

	silent, err := w.run(ctx)
	c.part(lib, silent)
	return err
}

// Stop ends Run at once and tells nobody: the others find out by themselves.
func (c *Cluster) Stop() { c.stopOnce.Do(func() { close(c.stop) }) }

// part ends the library, not before the others know of it unless silent. A goodbye takes a second to spread; a node
// that is alone has nobody to say it to.
func (c *Cluster) part(lib *hserf.Serf, silent bool) {
	if !silent && c.company() {
		if err := lib.Leave(); err != nil {
			c.log.Debug("taking leave of the mesh", "error", err)
		}
	}
	if err := lib.Shutdown(); err != nil {
		c.log.Debug("stopping gossip", "error", err)
	}
}

// company reports whether anyone else is alive.
func (c *Cluster) company() bool {
	alive := 0
	for _, m := range c.Members() {
		if m.State == StateAlive {
			alive++
		}
	}
	return alive > 1
}

// close is the end of Run: no members, no more events.
func (c *Cluster) close() {
	close(c.ended)
	c.members.Store(new([]Member))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lib = nil
	c.over = true
	for s := range c.subs {
		close(s.ch)
	}
	clear(c.subs)
}

// library returns the library once it runs; it waits for that as long as ctx allows.
func (c *Cluster) library(ctx context.Context) (*hserf.Serf, error) {
	select {
	case <-c.ready:
	case <-c.ended:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for gossip to start: %w", context.Cause(ctx))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lib == nil {
		return nil, errors.New("this node does not gossip any more")
	}
	return c.lib, nil
}
