package appliance

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/errgroup"

	"viiwork/appliance/kvshare"
	"viiwork/appliance/kvshare/store"
	"viiwork/appliance/kvshare/transfer"
	"viiwork/appliance/mesh"
)

// caches is what this node does for conversations that move: its store of their engines' states, and how these travel.
type caches struct {
	a     *Appliance
	dir   string
	share *kvshare.Share // nil = kv_share.mode is off
	given atomic.Bool    // what conversations have here is with others: this node is about to go
	store *store.Store   // nil until it is opened
}

func newCaches(a *Appliance) *caches {
	c := &caches{a: a, dir: filepath.Join(a.cfg.Node.StateDir, "kv")}
	c.share = kvshare.New(kvshare.Config{
		Mode: kvshare.Mode(a.cfg.KVShare.Mode), Engine: a.engine, Known: a.mesh.known, Notes: filepath.Join(c.dir, "notes"),
		Digest: a.digests.of, TokenBytes: a.digests.kvPerToken, News: a.mesh.tell, Imported: a.tallies.imported, Log: a.log,
	})
	return c
}

// open wants the lock of the state directory held. Where caches are not moved any more, nobody would delete those of
// earlier runs when their time has come, so it is done here.
func (c *caches) open() (err error) {
	if c.share == nil {
		err = store.Wipe(c.dir)
	} else {
		c.store, err = store.Open(store.Config{Dir: filepath.Join(c.dir, "store"), Budget: c.a.cfg.KVShare.Store, Log: c.a.log})
	}
	if err != nil {
		return fmt.Errorf("%w: make %s writable to this user, or remove it", err, c.dir)
	}
	if c.share != nil {
		c.share.Keep(c.store)
	}
	return nil
}

func (c *caches) close() {
	if c.store == nil {
		return
	}
	if err := c.store.Close(); err != nil {
		c.a.log.Warn("the store of caches was not closed", "error", err)
	}
}

func (c *caches) run(ctx context.Context) error {
	if c.share == nil {
		<-ctx.Done()
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.store.Run(ctx) })
	g.Go(func() error { return c.share.Run(ctx) })
	return g.Wait()
}

// join makes it one of a mesh.
func (c *caches) join(f *fellows) {
	if c.share == nil {
		return
	}
	cfg := c.a.cfg
	tailnet := cfg.Mesh.Network == "tailnet"
	trusted := func() bool { return tailnet || c.a.mesh.keys.Load().Secured() }
	if len(cfg.KVShare.Direct) > 0 && !trusted() {
		c.a.log.Warn("kv_share.direct does nothing in an open mesh: give the mesh a secret, or remove the key")
	}
	client, err := transfer.NewClient(transfer.Config{
		Mesh: f.client, Tailnet: tailnet, Direct: cfg.KVShare.Direct, Rate: cfg.KVShare.Rate, Log: c.a.log,
		Trusted: trusted, Busy: c.standsBack,
	})
	if err != nil {
		c.a.log.Warn("caches stay on this node; starting it again may help", "error", err)
		return
	}
	c.share.Join(kvshare.Net{ID: f.id, Client: client, Member: c.member, Kin: c.kin, Leaving: c.leaving, Guard: c.a.mesh.table.Guard})
	f.carrier.Store(transfer.NewServer(c.share, f.verifier, client))
}

// member finds a living one by its id.
func (c *caches) member(id string) (mesh.Member, bool) {
	for _, n := range c.a.mesh.table.Snapshot() {
		if n.Member.ID == id {
			return n.Member, true
		}
	}
	return mesh.Member{}, false
}

// standsBack tells whether copies of caches wait for requests that run here: not while a member is about to go, which waits for
// them. In a mesh that is always used they would never be made.
func (c *caches) standsBack() bool {
	return c.share.Working() && !slices.ContainsFunc(c.a.mesh.table.Snapshot(), func(n mesh.NodeState) bool { return n.Report != nil && n.Report.Draining })
}

// leaving tells of a member that drains.
func (c *caches) leaving(id string) bool {
	for _, n := range c.a.mesh.table.Snapshot() {
		if n.Member.ID == id {
			return n.Report != nil && n.Report.Draining
		}
	}
	return false
}

// kin are the members whose caches of a model are of that kind.
func (c *caches) kin(model, kind string) (ids []string) {
	for _, n := range c.a.mesh.table.Snapshot() {
		if m, ok := n.Model(model); ok && m.KV != nil && m.KV.Kind == kind {
			ids = append(ids, n.Member.ID)
		}
	}
	return ids
}

// leave gives what conversations have here a second copy elsewhere, before this node goes. It tells how many have one, and
// of how many.
func (c *caches) leave(ctx context.Context) (moved, of int) {
	c.given.Store(true)
	return c.share.Leave(ctx)
}

// lateWithin bounds the time in which what has ended since is given away, too: clients wait for what comes then.
const lateWithin = 10 * time.Second

// leaveLate gives away what ended after leave, if that was called.
func (c *caches) leaveLate(ctx context.Context) {
	if !c.given.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lateWithin)
	defer cancel()
	c.share.LeaveLate(ctx)
}

// mountCaches adds what other nodes ask about states, and what tells of them.
func (a *Appliance) mountCaches(e *echo.Echo) {
	e.GET("/api/kv", func(c echo.Context) error { return c.JSON(http.StatusOK, a.caches.share.Report(a.current().Node.Name)) })
	carry := a.amongFellows(func(f *fellows) http.Handler {
		if s := f.carrier.Load(); s != nil {
			return s
		}
		return http.NotFoundHandler()
	})
	e.POST(transfer.ManifestPath, carry)
	e.POST(transfer.ChunksPath, carry)
	e.POST(transfer.DirectPath, carry)
}
