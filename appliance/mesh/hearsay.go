package mesh

import (
	"slices"
	"time"
)

// hear makes what a member says it holds part of the register.
func (r *Register) hear(member string, l *holdings, h *hearing) error {
	now := r.cfg.Now()
	if err := h.take(l, now); err != nil {
		r.Leave(member)
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.others[member]
	for id, s := range was {
		if h.residents[id] != s {
			r.index.take(Spot{member, s.Backend}, s)
			delete(was, id)
		}
	}
	if was == nil {
		was = map[uint64]*Resident{}
		r.others[member] = was
	}
	var added []uint64
	for id := range h.residents {
		if was[id] == nil {
			added = append(added, id)
		}
	}
	slices.Sort(added) // as they came about: of one conversation the last counts
	for _, id := range added {
		s := h.residents[id]
		was[id] = s
		r.put(Spot{member, s.Backend}, s)
		r.settled(member, s, now)
	}
	return nil
}

// settled makes the newest word about a conversation its home, unless the member has proved not to know.
func (r *Register) settled(member string, s *Resident, now time.Time) {
	if !r.believed(member, now) || s.Replica != "" {
		return
	}
	r.homes.set(home{
		key: homeKey{s.Model, s.Session}, spot: Spot{member, s.Backend}, source: s.Source, tokens: s.Tokens, active: s.Active, ended: true, blind: len(s.Chain) == 0, teller: member,
	})
}

// heardAll notes that a member has told all that it holds: what it goes on with is what changes.
func (r *Register) heardAll(member string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.others[member] != nil {
		r.whole[member] = true
	}
}

// Knows tells whether all is known that a member holds. Before, what others have of a conversation looks as if nobody had it.
func (r *Register) Knows(member string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.whole[member]
}

// Leave forgets what a member holds: it is no member any more, or begins anew. Where conversations ran last is kept, and
// how often its word was wrong: or a liar would be believed again each time it comes back.
func (r *Register) Leave(member string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.others[member] {
		r.index.take(Spot{member, s.Backend}, s)
	}
	delete(r.others, member)
	delete(r.whole, member)
}
