package mesh

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// tellEvery is how often the digest is told without a change, by whichever node comes to it first in tellEarly before
	// that: a message may have been lost.
	tellEvery = time.Minute
	tellEarly = 10 * time.Second
	// tellLate is the most that a node waits before it says that it knows more than somebody else: of many that do, the
	// first one is enough.
	tellLate = 300 * time.Millisecond
	// tellOnce is for how long one digest is not told again for that reason: two nodes that can never agree must not
	// talk without end.
	tellOnce = 5 * time.Second

	maxUnheeded  = 64 // messages and members that wait to be looked at
	digestLength = 32
)

// HeraldConfig is what a Herald is made of.
type HeraldConfig struct {
	ID       string // of this node
	Aliases  *Aliases
	Members  func() []Member // those gossip holds for alive; must not wait
	Client   *Client
	Verifier *Verifier
	// Tell brings a few bytes to every member's Hear, soon and as a rule.
	Tell func(ctx context.Context, message []byte) error
	Log  *slog.Logger // nil = silent
}

// Herald keeps the aliases of all members the same. What it tells is a digest only; who has another one asks for the
// table.
type Herald struct {
	cfg   HeraldConfig
	ran   atomic.Bool
	heard chan []byte
	met   chan string
	done  chan fetched
	limit chan struct{} // as many tables are fetched at one time

	// Run's own.
	fetching map[string]bool // by member; true = again when it is done
	late     *time.Timer
	told     [digestLength]byte // last told by anybody
	toldAt   time.Time
	blamed   map[string]bool // members whose tables are no such thing, already said
}

// fetched is what came of asking a member.
type fetched struct {
	member       Member
	gained, more bool
	err          error
}

// NewHerald makes a Herald that says nothing yet.
func NewHerald(cfg HeraldConfig) *Herald {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Herald{
		cfg: cfg, heard: make(chan []byte, maxUnheeded), met: make(chan string, maxUnheeded), done: make(chan fetched),
		limit: make(chan struct{}, fetchAtOnce), fetching: map[string]bool{}, blamed: map[string]bool{},
	}
}

// Hear takes a message of another member's Tell, or of this node's own. It never waits; what is too much is dropped, and
// told again within a minute.
func (h *Herald) Hear(message []byte) {
	select {
	case h.heard <- message:
	default:
	}
}

// Met says that a member is there, for the first time or again: it may have been cut off. It never waits.
func (h *Herald) Met(id string) {
	select {
	case h.met <- id:
	default:
	}
}

// Run tells and fetches until ctx ends. It may be called once.
func (h *Herald) Run(ctx context.Context) error {
	if h.ran.Swap(true) {
		return errors.New("spreading the aliases: it has run already")
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	due := time.NewTimer(untilReminder())
	defer due.Stop()
	h.late = time.NewTimer(0)
	h.late.Stop()
	defer h.late.Stop()
	for _, m := range h.cfg.Members() {
		h.fetch(ctx, &wg, m.ID)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case message := <-h.heard:
			if id, news := h.read(message); news {
				h.fetch(ctx, &wg, id)
			}
		case id := <-h.met:
			h.fetch(ctx, &wg, id)
		case f := <-h.done:
			h.settle(f)
			again := h.fetching[f.member.ID]
			delete(h.fetching, f.member.ID)
			if again {
				h.fetch(ctx, &wg, f.member.ID)
			}
		case <-h.cfg.Aliases.written:
			h.tell(ctx)
		case <-h.late.C:
			h.tell(ctx)
		case <-due.C:
			h.cfg.Aliases.purge()
			h.remind(ctx)
			due.Reset(untilReminder())
		}
	}
}

// tell gives this node's digest to all.
func (h *Herald) tell(ctx context.Context) {
	digest := h.cfg.Aliases.view.Load().digest
	h.told, h.toldAt = digest, time.Now()
	if err := h.cfg.Tell(ctx, append(digest[:], h.cfg.ID...)); err != nil && ctx.Err() == nil {
		h.cfg.Log.Debug("telling of the aliases", "error", err)
	}
}

func untilReminder() time.Duration { return tellEvery - rand.N(tellEarly) }

// remind tells again what there is, unless somebody has just done so.
func (h *Herald) remind(ctx context.Context) {
	v := h.cfg.Aliases.view.Load()
	if v.entries > 0 && (v.digest != h.told || time.Since(h.toldAt) >= tellEvery/2) {
		h.tell(ctx)
	}
}

// read takes a message apart. It is news if its member has another table.
func (h *Herald) read(message []byte) (id string, news bool) {
	if len(message) <= digestLength || !isID(string(message[digestLength:])) {
		return "", false
	}
	id = string(message[digestLength:])
	if id == h.cfg.ID {
		return id, false
	}
	digest := [digestLength]byte(message)
	if digest != h.cfg.Aliases.view.Load().digest {
		return id, true
	}
	h.told, h.toldAt = digest, time.Now()
	h.late.Stop()
	return id, false
}

// settle notes what a member's table brought. Who knows more than the member says so, in a moment.
func (h *Herald) settle(f fetched) {
	switch {
	case f.err != nil:
		h.cfg.Log.Debug("asking a member for its aliases", "member", f.member.Name, "error", f.err)
		if errors.Is(f.err, errManyAliases) && !h.blamed[f.member.ID] && len(h.blamed) < maxMembers {
			h.blamed[f.member.ID] = true
			h.cfg.Log.Warn("a member tells of more aliases than a node keeps; none of them is taken", "member", f.member.Name)
		}
		return
	case f.gained:
		h.cfg.Log.Info("aliases have changed", "told_by", f.member.Name, "aliases", len(h.cfg.Aliases.List()))
	}
	if digest := h.cfg.Aliases.view.Load().digest; f.more && (digest != h.told || time.Since(h.toldAt) >= tellOnce) {
		h.late.Reset(rand.N(tellLate))
	}
}
