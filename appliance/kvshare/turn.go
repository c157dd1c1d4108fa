package kvshare

import (
	"context"
	"sync"
	"time"

	"viiwork/appliance/mesh"
)

const (
	// takeTime is how long others wait for an engine to take a turn. One that says nothing in that time has its slots full of
	// what is not ours.
	takeTime = 5 * time.Second
	// askTime is how long an engine may take to tell what its slots hold: it may be at work on a batch.
	askTime = 3 * time.Second
)

// Turn is one request on its way into an engine of this node.
type Turn struct {
	Model, Backend string
	Session        string // digest; "" = none
	Prompt         []mesh.Link
	Marks          []int   // tokens at each link, estimated
	Tokens         int     // of the whole prompt, estimated
	Prefill        float64 // tokens a second of the backend, 0 = unknown
	From           string  // id of the node the conversation ran on before, "" = this one, or it is new
	Fetch          *Fetch  // the cache to take along; nil = none
}

// Fetch is a cache that is worth being taken along.
type Fetch struct {
	Member mesh.Member   // who has it; the zero one = this node's own store
	Link   int           // the link of the prompt up to which it goes
	Stored int           // the same of what is in a store already, should no more be saved by now; -1 = nothing is
	Tokens int           // estimated
	Within time.Duration // longer and it is not worth it
}

// Start is a turn's way into an engine. It must be ended; until then, or until it is taken, no other turn of that engine begins.
type Start struct {
	// Slot is where the engine is to work; -1 leaves that to it.
	Slot int
	// Moved tells how the cache came: "import" from this node's store, "pull" from a member, "" not at all.
	Moved string

	share    *Share
	bench    *bench
	turn     Turn
	conv     *conv // it goes on with, nil = none of those in the slots
	restored *restored
	unlock   func() // of the gate, once
}

// Begin prepares the engine for a turn: what would be lost by it is saved, what it needs is fetched. It waits for both, within
// bounds; what fails is left alone.
func (s *Share) Begin(ctx context.Context, t Turn) *Start {
	st := &Start{Slot: -1, share: s, turn: t, unlock: func() {}}
	if s == nil {
		return st
	}
	if _, ok := s.cfg.Engine.SlotFolder(t.Backend); !ok {
		return st
	}
	s.mu.Lock()
	b := s.bench(t.Backend, t.Model)
	st.bench, b.prefill = b, t.Prefill
	b.running++
	s.mu.Unlock()
	var got *restored
	if t.Fetch != nil {
		got = s.fetch(ctx, &t)
		defer got.discard()
	}
	if !b.lock(ctx) {
		return st
	}
	var once sync.Once
	st.unlock = func() { once.Do(b.unlock) }
	s.mu.Lock()
	st.conv = b.continued(t.Session, t.Prompt)
	full := st.conv == nil && s.wouldLose(b)
	s.mu.Unlock()
	if got != nil || full {
		s.makeRoom(ctx, st, got)
	}
	s.mu.Lock()
	if st.conv != nil {
		st.conv.running = true
	}
	s.mu.Unlock()
	late := time.AfterFunc(takeTime, st.unlock)
	free := st.unlock
	st.unlock = func() { late.Stop(); free() }
	return st
}

// Lost tells that an engine does not hold a conversation any more, whatever it said it had: none of its slots does, and it keeps
// nothing beside them.
func (s *Share) Lost(model, backend, session string, prompt []mesh.Link) bool {
	if s == nil {
		return false
	}
	for _, m := range s.cfg.Engine.Snapshot() {
		if m.Model.Name == model && m.Model.PromptCache > 0 {
			return false
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.benches[backend]
	return b != nil && b.continued(session, prompt) == nil
}

// wouldLose tells whether a further conversation can cost one that is not saved its slot. It wants the lock held.
func (s *Share) wouldLose(b *bench) bool {
	for _, c := range b.convs {
		if !c.saved && !c.running {
			return true
		}
	}
	return false
}

// makeRoom saves what the turn will displace and puts there what was fetched for it. It wants the gate held.
func (s *Share) makeRoom(ctx context.Context, st *Start, got *restored) {
	b := st.bench
	asking, cancel := context.WithTimeout(ctx, askTime)
	slots, err := s.cfg.Engine.AskSlots(asking, b.id)
	cancel()
	if err != nil {
		s.log.Debug("what the slots hold is not known", "backend", b.id, "error", err)
		return
	}
	s.mu.Lock()
	slot, c := b.next(&st.turn, slots)
	if got != nil {
		slot, c = b.oldest(slots)
	}
	own := false // the slot holds an earlier state of the same conversation: it is no loss
	if got != nil && st.conv != nil {
		if i, ok := b.slotOf(st.conv, slots); ok {
			slot, c, own = i, st.conv, true
		}
	}
	if own && st.conv.stay.Tokens >= got.count {
		s.mu.Unlock()
		return // it holds as much already
	}
	due := c != nil && !c.saved && !own
	s.mu.Unlock()
	if due && s.pays(b, c) {
		s.save(context.WithoutCancel(ctx), b, c, slot)
	}
	if ctx.Err() != nil {
		return // nothing is displaced
	}
	s.mu.Lock()
	if c != nil {
		b.remove(c)
	}
	if c == st.conv {
		st.conv = nil
	}
	s.mu.Unlock()
	if got == nil || slot < 0 {
		return
	}
	if !s.restore(ctx, &st.turn, got, slot) {
		return
	}
	st.Slot, st.Moved, st.restored = slot, got.moved, got
}

// Taken says that the engine is at work on the turn. Calling it again does nothing.
func (st *Start) Taken() { st.unlock() }

// Outcome is what became of a turn.
type Outcome struct {
	// Stay is what its slot holds now; nil = not known.
	Stay           *mesh.Resident
	Prompt, Cached int // tokens, by the engine's count; -1 = unknown
	// Tokens asks the engine for the tokens of the prompt, to be held against those of a restored state; nil, or an
	// error = they cannot be had.
	Tokens func(context.Context) ([]int32, error)
}

// End takes account of the turn.
func (st *Start) End(ctx context.Context, o Outcome) {
	st.unlock()
	if st.bench == nil {
		return
	}
	st.leaves(o) // first: who hears of it may want it at once
	if st.restored != nil {
		st.share.judge(ctx, st, o)
	}
	st.share.moved(&st.turn, o)
}

// leaves keeps account of what the turn has left in its slot.
func (st *Start) leaves(o Outcome) {
	s, b := st.share, st.bench
	slots := 1
	if t, ok := s.cfg.Engine.KVTraits(b.id); ok {
		slots = t.Slots
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.running--
	c := st.conv
	if o.Stay == nil {
		if c != nil {
			b.remove(c) // nobody knows what its slot holds
		}
		return
	}
	if c == nil {
		c = &conv{name: newName()}
		if st.restored != nil && st.restored.goesOn {
			c.name = st.restored.name
		}
	}
	c.stay, c.ended, c.running, c.saved = *o.Stay, s.now(), false, false
	b.keep(c, slots)
}
