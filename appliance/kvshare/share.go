package kvshare

import (
	"context"
	"encoding/hex"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/kvshare/store"
	"viiwork/appliance/mesh"
	"viiwork/engine"
)

// Mode is how far caches travel.
type Mode string

const (
	Off       Mode = "off"
	Pull      Mode = "pull"      // to where a conversation moves
	Replicate Mode = "replicate" // and after each save to one more node, in case the home dies
)

// Config is what a Share is made of.
type Config struct {
	Mode   Mode
	Engine *engine.Engine
	Known  *mesh.Register            // learns what the store holds
	Notes  string                    // folder for what a store does not know of its replicas: which conversations they are
	Digest func(model string) string // of the model's file; "" = not known yet, and its caches stay where they are
	// TokenBytes is how many bytes of cache a token of the model takes by its file; 0, or nil = not known.
	TokenBytes func(model string) int64
	// Imported gets how long a part of bringing a cache into an engine took: fetch, assemble or restore. It must not wait; nil = nobody asks.
	Imported func(phase string, took time.Duration)
	News     func()           // Figures has changed. It must not wait; nil = nobody asks
	Log      *slog.Logger     // nil = silent
	Now      func() time.Time // nil = time.Now
}

// Share moves the caches of this node's conversations. A nil Share moves none, and all its methods say so.
type Share struct {
	cfg   Config
	log   *slog.Logger
	now   func() time.Time
	store *store.Store
	net   atomic.Pointer[Net]
	jobs  chan *saving  // states that wait to be put into the store
	ended chan struct{} // closed when nothing is put there any more

	mu      sync.Mutex // guards all below; held for microseconds
	benches map[string]*bench
	figures map[string]*figures
	kept    map[store.Name]mesh.Resident // what the store holds, by the conversation
	pending map[*saving]struct{}         // saved, and on the way into the store
	trials  map[trialKey]*trial
	pairs   map[pairKey]*pair
	moves   map[string]*moves
	alone   int // conversations that nobody had a copy of when this node was to leave
}

// New makes a Share, nil where the mode is Off. It starts nothing.
func New(c Config) *Share {
	if c.Mode == Off {
		return nil
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Share{
		cfg: c, log: c.Log, now: c.Now, jobs: make(chan *saving, maxJobs), ended: make(chan struct{}), benches: map[string]*bench{}, figures: map[string]*figures{},
		kept: map[store.Name]mesh.Resident{}, pending: map[*saving]struct{}{}, trials: map[trialKey]*trial{}, pairs: map[pairKey]*pair{}, moves: map[string]*moves{},
	}
}

// Keep gives it the store to use. It is called once, before Run and before there are turns.
func (s *Share) Keep(st *store.Store) { s.store = st }

// Run saves what is idle and stores what was saved, until ctx ends. It begins with what an earlier run has kept.
func (s *Share) Run(ctx context.Context) error {
	s.recall()
	var wg sync.WaitGroup
	wg.Go(func() { s.storeJobs(ctx) })
	defer wg.Wait()
	wg.Go(func() { s.replicate(ctx) })
	look, tidy := time.NewTicker(idleLook), time.NewTicker(tidyEvery)
	defer look.Stop()
	defer tidy.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			s.saveIdle(ctx)
		case <-tidy.C:
			s.forgetGone()
		}
	}
}

// storeJobs puts into the store what was saved. What is not there when ctx ends is thrown away: it does not stay in the slots'
// folders, whose engines may live on.
func (s *Share) storeJobs(ctx context.Context) {
	defer close(s.ended)
	for {
		select {
		case job := <-s.jobs:
			job.store(ctx)
		case <-ctx.Done():
			select {
			case job := <-s.jobs:
				job.store(ctx)
			default:
				return
			}
		}
	}
}

// key is what a state of this backend has in common with those it can restore.
func (s *Share) key(model, backend string) (replica.Key, bool) {
	t, ok := s.cfg.Engine.KVTraits(backend)
	digest := s.cfg.Digest(model)
	if !ok || digest == "" {
		return replica.Key{}, false
	}
	k := replica.Key{Model: digest, Build: t.Build + t.Alters, CacheK: t.TypeK, CacheV: t.TypeV, Flash: t.Flash}
	if !t.Unified {
		k.Slots = t.Slots
	}
	return k, k.Validate() == nil
}

// kindOf stands for a key, for others to compare with their own.
func kindOf(k replica.Key) string {
	d := k.Digest()
	return hex.EncodeToString(d[:])
}
