package mesh

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// RegisterConfig is what a Register is made of.
type RegisterConfig struct {
	Now func() time.Time // nil = time.Now
	Log *slog.Logger     // nil = silent
}

// Register knows where conversations are: what the backends of this node hold, what the members say that theirs hold, and
// where each conversation is at home. What it says is a guess that costs time when it is wrong, and nothing else.
//
// This node's own part is written by whoever runs requests, the members' by the Watcher that was given the Register. It
// bounds all of it: a million conversations leave it as large as some thousands.
type Register struct {
	cfg RegisterConfig

	mu      sync.Mutex // guards all below; held for microseconds
	index   index
	homes   homes
	own     map[string]*shelf               // by backend
	stored  map[string]*Resident            // in this node's store, by name
	last    uint64                          // number of an own resident
	links   int                             // of all own residents
	others  map[string]map[uint64]*Resident // by member
	whole   map[string]bool                 // members that have told all of it
	credits map[string]*credit              // by member
	found   []held                          // of the search under way
}

// NewRegister makes an empty Register.
func NewRegister(cfg RegisterConfig) *Register {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Register{
		cfg: cfg, index: newIndex(), homes: newHomes(), own: map[string]*shelf{}, stored: map[string]*Resident{},
		others: map[string]map[uint64]*Resident{}, whole: map[string]bool{}, credits: map[string]*credit{},
	}
}

// Settle notes what a backend of this node holds now that an answer of it has ended. cached is how many tokens of its
// prompt the engine had, -1 = unknown: it says whether what was believed to be there was.
func (r *Register) Settle(stay Resident, cached int) {
	now := r.cfg.Now()
	stay.Active = now
	s := newResident(stay)
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.check() != nil {
		return
	}
	at := Spot{"", s.Backend}
	shelf := r.shelf(s.Backend)
	r.succeed(shelf, s, cached)
	r.last++
	s.id = r.last
	shelf.list, shelf.counted = append(shelf.list, s), time.Time{}
	r.put(at, s)
	if len(shelf.list) > shelf.room {
		r.remove(shelf, 0)
	}
	r.fit()
	r.homes.set(home{key: homeKey{s.Model, s.Session}, spot: at, source: s.Source, tokens: s.Tokens, active: now, ended: true})
}

// Slots says that a backend of this node keeps nothing beside so many slots: of what was believed to be there the rest is gone.
func (r *Register) Slots(backend string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := r.own[backend]; s != nil && len(s.list) > max(n, 1); {
		r.remove(s, 0)
	}
}

// succeed takes away what s has come out of, and all that has turned out to be gone.
func (r *Register) succeed(shelf *shelf, s *Resident, cached int) {
	i, claimed := shelf.find(s)
	if i < 0 {
		shelf.learn(cached, s.Tokens)
		return
	}
	s.from = shelf.list[i].id
	if shelf.prove(i, claimed, cached) {
		r.remove(shelf, i)
		return
	}
	for range i + 1 {
		r.remove(shelf, 0)
	}
}

// Forget drops what a backend of this node held: its engine has begun anew.
func (r *Register) Forget(backend string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := r.own[backend]; s != nil && len(s.list) > 0; {
		r.remove(s, 0)
	}
	delete(r.own, backend)
}

// Went notes where a conversation runs from now on; node "" is this one.
func (r *Register) Went(model, session, source string, at Spot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := home{key: homeKey{model, session}, spot: at, source: source, active: r.cfg.Now()}
	if was := r.homes.find(model, session); was != nil {
		h.tokens = was.tokens
	}
	r.homes.set(h)
}

// Holding is how much of a prompt a spot holds.
type Holding struct {
	Spot
	Tokens int
	Link   int // the last link of the prompt that it has; in an engine, if a conversation ends there, else -1
}

// Found is what is known of a prompt.
type Found struct {
	Known    bool // there is a home
	Home     Spot
	ByPrefix bool          // it was found by what it holds, not by the session
	Since    time.Duration // since its last answer ended; 0 = unknown, or a request of it runs
	Held     []Holding
	// Stored is what nodes have of the prompt in their stores; the spots have no backend.
	Stored []Holding
	// Matched is how many links of the prompt some spot holds, and Counted how many tokens these are.
	Matched, Counted int
}

// Find tells where a conversation is at home and which spots hold how much of its prompt. The home is where the session
// ran last; where a session has more than one conversation, the spot that holds this one. Without a session it is the
// spot that holds more of the prompt than other conversations share.
func (r *Register) Find(model, session string, prompt []Link) Found {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Now()
	r.found = r.index.find(prompt, r.found[:0])
	r.found = slices.DeleteFunc(r.found, func(h held) bool { return !r.believed(h.spot.Node, now) })
	var f Found
	if len(r.found) > 0 {
		f.Matched, f.Counted = r.found[0].depth+1, r.found[0].mark
	}
	r.found = slices.DeleteFunc(r.found, func(h held) bool {
		if h.spot.Backend == "" {
			f.Stored = append(f.Stored, Holding{h.spot, h.tokens, h.depth})
		}
		return h.spot.Backend == ""
	})
	best := r.nearest()
	for _, h := range r.found {
		link := -1
		if h.ends {
			link = h.depth
		}
		f.Held = append(f.Held, Holding{h.spot, h.tokens, link})
	}
	if h := r.homes.find(model, session); h != nil && r.believed(h.teller, now) {
		f.Known, f.Home = true, h.spot
		if h.ended {
			f.Since = now.Sub(h.active)
		}
		if h.blind && h.tokens > r.heldAt(h.spot) {
			f.Held = append(f.Held, Holding{h.spot, h.tokens, -1})
		}
		if best != nil && best.spot != h.spot && best.tokens >= r.heldAt(h.spot)+leastClaim {
			f.Home = best.spot
		}
	} else if best != nil {
		f.Known, f.Home, f.ByPrefix, f.Since = true, best.spot, true, now.Sub(best.active)
	}
	return f
}

// Stays are the conversations of a session that its home holds, as it has told them.
func (r *Register) Stays(model, session string) (all []Resident) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.homes.find(model, session)
	if h == nil {
		return nil
	}
	add := func(s *Resident) {
		if s.Session == session && s.Model == model && s.Backend == h.spot.Backend {
			all = append(all, *s)
		}
	}
	if own := r.own[h.spot.Backend]; h.spot.Node == "" && own != nil {
		for _, s := range own.list {
			add(s)
		}
	}
	for _, s := range r.others[h.spot.Node] {
		add(s)
	}
	return all
}

// nearest is the spot that holds most of the prompt, if that is worth a way and tells it from other conversations: the one
// last used, if there are several.
func (r *Register) nearest() *held {
	var best *held
	for i := range r.found {
		h := &r.found[i]
		if !h.alone || h.depth < r.found[0].depth {
			break
		}
		if h.tokens < leastClaim {
			continue
		}
		if best == nil || h.active.After(best.active) {
			best = h
		}
	}
	return best
}

func (r *Register) heldAt(at Spot) int {
	for _, h := range r.found {
		if h.spot == at {
			return h.tokens
		}
	}
	return 0
}

// put and remove keep the index to what is held.
func (r *Register) put(at Spot, s *Resident) {
	if !r.index.room(len(s.Chain)) {
		s.Chain, s.Marks = nil, nil
	}
	r.index.add(at, s)
	if at.Node == "" {
		r.links += len(s.Chain)
	}
}

// fit drops what was unused for longest in the engines, until members believe all that they are told.
func (r *Register) fit() {
	for r.links > ownLinks {
		r.remove(r.stalest(), 0) // there is one: replicas alone have fewer links
	}
}

// stalest is the shelf with the resident that was unused for longest.
func (r *Register) stalest() *shelf {
	var oldest *shelf
	for _, s := range r.own {
		if len(s.list) > 0 && (oldest == nil || s.list[0].id < oldest.list[0].id) {
			oldest = s
		}
	}
	return oldest
}

func (r *Register) remove(s *shelf, i int) {
	r.index.take(Spot{"", s.list[i].Backend}, s.list[i])
	r.links -= len(s.list[i].Chain)
	s.list, s.counted = slices.Delete(s.list, i, i+1), time.Time{}
}

// Residents counts the conversations that live at a backend of this node: those that were active within 300 s.
func (r *Register) Residents(backend string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.own[backend]
	if s == nil {
		return 0
	}
	return s.alive(r.cfg.Now())
}

// told lists what this node holds, the longest unused first within each backend.
func (r *Register) told() []*Resident {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*Resident
	for _, s := range r.own {
		all = append(all, s.list...)
	}
	for _, s := range r.stored {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *Resident) int { return int(a.id) - int(b.id) })
	return all
}

// Conversation is where one is at home, for people.
type Conversation struct {
	Model, Session, Source string
	Home                   Spot
	Tokens                 int           // 0 = unknown
	Idle                   time.Duration // since it was last active, as far as is known
	Replicas               []string      // ids of the nodes that have one in their stores; "" = this one
}

// Conversations lists up to n, those last used first. One without a session is known by its prompt only.
func (r *Register) Conversations(n int) []Conversation {
	now := r.cfg.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	list, where := []Conversation{}, r.storing()
	for el := r.homes.order.Front(); el != nil && len(list) < n; el = el.Next() {
		h := el.Value.(*home)
		list = append(list, Conversation{h.key.model, h.key.session, h.source, h.spot, h.tokens, now.Sub(h.active), where[h.key]})
	}
	nameless := func(member string, s *Resident) {
		if s.Session == "" && s.Replica == "" {
			list = append(list, Conversation{s.Model, "", s.Source, Spot{member, s.Backend}, s.Tokens, now.Sub(s.Active), nil})
		}
	}
	for _, s := range r.own {
		for _, held := range s.list {
			nameless("", held)
		}
	}
	for member, all := range r.others {
		for _, held := range all {
			nameless(member, held)
		}
	}
	slices.SortStableFunc(list, func(a, b Conversation) int { return cmp.Compare(a.Idle, b.Idle) })
	return list[:max(0, min(n, len(list)))]
}
