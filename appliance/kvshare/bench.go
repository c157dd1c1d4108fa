package kvshare

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"viiwork/appliance/kvshare/store"
	"viiwork/appliance/mesh"
	"viiwork/engine"
)

// bench is one engine: which conversations lie in its slots, as far as is known here. The Share's lock guards it but for the
// gate.
type bench struct {
	id, model string
	// gate is held by who begins a turn there, saves a slot or restores one: from looking which slot that is until the
	// engine has taken it.
	gate    chan struct{}
	running int
	prefill float64 // tokens a second, 0 = unknown
	convs   []*conv // the one used last at the end
}

// conv is a conversation that lies in a slot.
type conv struct {
	stay    mesh.Resident
	name    store.Name
	ended   time.Time // when its last answer did
	running bool
	saved   bool // as it stands, or there is no use in trying
	tried   bool // so that what did not pay to be saved is saved once before this node goes
}

// bench finds or begins one. It wants the lock held.
func (s *Share) bench(id, model string) *bench {
	b := s.benches[id]
	if b == nil {
		b = &bench{id: id, model: model, gate: make(chan struct{}, 1)}
		s.benches[id] = b
	}
	return b
}

func (b *bench) lock(ctx context.Context) bool {
	select {
	case b.gate <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (b *bench) tryLock() bool {
	select {
	case b.gate <- struct{}{}:
		return true
	default:
		return false
	}
}

func (b *bench) unlock() { <-b.gate }

// continued is the conversation that a prompt goes on with, nil if none of those in the idle slots: of one that is at work, the
// engine computes what it has to in another slot.
func (b *bench) continued(session string, prompt []mesh.Link) *conv {
	at := places(prompt)
	var best *conv
	deepest := -1
	for _, c := range b.convs {
		last := len(c.stay.Chain) - 1
		if last < 0 || c.running {
			continue
		}
		if i, ok := at[c.stay.Chain[last]]; ok && i > deepest && (last > 0 || session == c.stay.Session) {
			best, deepest = c, i
		}
	}
	return best
}

func places(prompt []mesh.Link) map[mesh.Link]int {
	at := make(map[mesh.Link]int, len(prompt))
	for i, l := range prompt {
		at[l] = i
	}
	return at
}

// common is how many tokens of a conversation a prompt begins with.
func (c *conv) common(at map[mesh.Link]int) int {
	for i := len(c.stay.Chain) - 1; i >= 0; i-- {
		if _, ok := at[c.stay.Chain[i]]; ok {
			if i == len(c.stay.Chain)-1 {
				return c.stay.Tokens
			}
			return c.stay.Marks[i]
		}
	}
	return 0
}

// lies tells whether a slot may hold so many tokens of a conversation: an engine does not compute the last token of an answer
// until there is a next one, unless it was cut short.
func lies(s engine.SlotState, tokens int) bool {
	return !s.Processing && (s.Tokens == tokens || s.Tokens == tokens-1)
}

// slotOf tells which of the engine's slots a conversation lies in: the idle one that holds as many tokens as its answer came
// to, and of several alike those used last for the conversations that ended last. ok is false where that decides nothing.
func (b *bench) slotOf(c *conv, slots []engine.SlotState) (slot int, ok bool) {
	var alike []engine.SlotState
	for _, s := range slots {
		if lies(s, c.stay.Tokens) {
			alike = append(alike, s)
		}
	}
	var equals []*conv
	for _, other := range b.convs {
		if d := other.stay.Tokens - c.stay.Tokens; d >= -1 && d <= 1 && !other.running {
			equals = append(equals, other)
		}
	}
	if !slices.Contains(equals, c) || len(alike) != len(equals) {
		return 0, false // it is at work, or has lost its slot, or its slot cannot be told from others
	}
	slices.SortFunc(alike, func(x, y engine.SlotState) int { return cmp.Compare(x.Task, y.Task) })
	slices.SortStableFunc(equals, func(x, y *conv) int { return x.ended.Compare(y.ended) })
	return alike[slices.Index(equals, c)].ID, true
}

// least share of a prompt that llama-server wants to find in a slot before it takes that one rather than the one longest
// unused (its --slot-prompt-similarity).
const similarity = 0.10

// next is the slot that the engine will take for a prompt which no slot goes on with: the most similar, else the one
// longest unused.
func (b *bench) next(t *Turn, slots []engine.SlotState) (slot int, c *conv) {
	at, best := places(t.Prompt), 0
	for _, other := range b.convs {
		if n := other.common(at); !other.running && n > best && float64(n) > similarity*float64(t.Tokens) {
			if i, ok := b.slotOf(other, slots); ok {
				slot, c, best = i, other, n
			}
		}
	}
	if c != nil {
		return slot, c
	}
	return b.oldest(slots)
}

// oldest is the idle slot longest unused, -1 if all work.
func (b *bench) oldest(slots []engine.SlotState) (slot int, c *conv) {
	slot = -1
	task := 0
	for _, s := range slots {
		if !s.Processing && (slot < 0 || s.Task < task) {
			slot, task = s.ID, s.Task
		}
	}
	for _, other := range b.convs {
		if i, ok := b.slotOf(other, slots); ok && i == slot {
			c = other
		}
	}
	return slot, c
}

// Forget says that a backend's engine has ended: what its slots held is gone.
func (s *Share) Forget(backend string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.benches[backend]; b != nil {
		b.convs = nil
	}
}

func (b *bench) remove(c *conv) {
	b.convs = slices.DeleteFunc(b.convs, func(other *conv) bool { return other == c })
}

// keep notes that a conversation lies in a slot. One that was the last of more than there are slots has lost its own.
func (b *bench) keep(c *conv, slots int) {
	b.remove(c)
	b.convs = append(b.convs, c)
	for i := 0; len(b.convs) > max(slots, 1) && i < len(b.convs); {
		if b.convs[i].running {
			i++
			continue
		}
		b.convs = slices.Delete(b.convs, i, i+1)
	}
}

func newName() store.Name {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	return store.Name(hex.EncodeToString(raw[:]))
}
