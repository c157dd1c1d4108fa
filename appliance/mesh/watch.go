package mesh

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// reconcileEvery is how often the members are looked at without a word that they changed.
const reconcileEvery = 500 * time.Millisecond

// WatcherConfig is what a Watcher is made of.
type WatcherConfig struct {
	ID      string          // of this node, which is not followed
	Members func() []Member // those gossip holds for alive or merely suspects; must not wait
	Changed <-chan struct{} // something in Members changed; may be nil
	Client  *Client
	Table   *Table
	Session *SessionKey  // learns the mesh's; nil = none
	Known   *Register    // learns what the members hold; nil = nobody does
	Log     *slog.Logger // nil = silent
}

// Watcher follows the capacity of all members and keeps the Table.
type Watcher struct {
	cfg       WatcherConfig
	ran       atomic.Bool
	following map[string]*following // Run's own
	strange   map[string]bool       // ids of members that cannot be, already said; Run's own
}

// following is one member being followed.
type following struct {
	addr string
	end  context.CancelFunc
}

// NewWatcher makes a Watcher that follows nobody yet.
func NewWatcher(cfg WatcherConfig) *Watcher {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Watcher{cfg: cfg, following: map[string]*following{}, strange: map[string]bool{}}
}

// Run follows the members until ctx ends. It may be called once.
func (w *Watcher) Run(ctx context.Context) error {
	if w.ran.Swap(true) {
		return errors.New("following the members: it has run already")
	}
	defer w.cfg.Client.Close()
	defer w.cfg.Table.clock.last.Store(nil) // without a beat it would stand still
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tick := time.NewTicker(reconcileEvery)
	defer tick.Stop()
	for {
		w.reconcile(ctx, &wg)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-w.cfg.Changed:
		}
	}
}

// reconcile begins to follow who is new, ends following who is out of the table, and begins anew where an address has
// changed.
func (w *Watcher) reconcile(ctx context.Context, wg *sync.WaitGroup) {
	w.cfg.Table.clock.beat()
	w.cfg.Table.sync(w.members())
	wanted := map[string]bool{}
	for _, r := range *w.cfg.Table.records.Load() {
		m := r.member
		wanted[m.ID] = true
		old, known := w.following[m.ID]
		if known && old.addr == m.Addr {
			continue
		}
		if known {
			old.end()
		}
		life, end := context.WithCancel(ctx)
		w.following[m.ID] = &following{addr: m.Addr, end: end}
		f := &follower{member: m, client: w.cfg.Client, table: w.cfg.Table, session: w.cfg.Session, known: w.cfg.Known, log: w.cfg.Log.With("member", m.Name, "address", m.Addr)}
		wg.Go(func() {
			defer end()
			f.follow(life)
			if f.known != nil {
				f.known.Leave(m.ID) // after the last word was heard
			}
		})
	}
	for id, f := range w.following {
		if !wanted[id] {
			f.end()
			delete(w.following, id)
		}
	}
}

// members takes from gossip what can be a member, each once, as many as the bound allows.
func (w *Watcher) members() map[string]Member {
	all := map[string]Member{}
	for _, m := range w.cfg.Members() {
		if m.ID == w.cfg.ID || len(all) >= maxMembers {
			continue
		}
		if err := m.check(); err != nil {
			if !w.strange[m.ID] && len(w.strange) < maxMembers {
				w.strange[m.ID] = true
				w.cfg.Log.Warn("a member is left out", "id", clip(m.ID), "address", clip(m.Addr), "error", err)
			}
			continue
		}
		all[m.ID] = m
	}
	return all
}

// clip is for what a stranger chose and a log shows.
func clip(s string) string { return s[:min(len(s), maxID)] }
