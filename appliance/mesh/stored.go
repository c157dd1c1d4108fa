package mesh

import (
	"cmp"
	"slices"
)

// Store notes a replica in this node's store, in place of the one of that name. A node tells of the newest ones only.
func (r *Register) Store(stay Resident) {
	stay.Active = r.cfg.Now()
	if n := len(stay.Chain); n > keptStored && n == len(stay.Marks) {
		stay.Chain, stay.Marks = slices.Clone(stay.Chain[n-keptStored:]), slices.Clone(stay.Marks[n-keptStored:])
	}
	s := newResident(stay)
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.Replica == "" || s.check() != nil {
		return
	}
	if was := r.stored[s.Replica]; was != nil {
		s.from = was.id
		r.unstore(s.Replica)
	}
	r.last++
	s.id = r.last
	r.stored[s.Replica] = s
	r.put(Spot{}, s)
	if len(r.stored) > maxStored {
		oldest := s
		for _, other := range r.stored {
			if other.id < oldest.id {
				oldest = other
			}
		}
		r.unstore(oldest.Replica)
	}
	r.fit()
}

// Unstore says that a replica is gone.
func (r *Register) Unstore(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unstore(name)
}

func (r *Register) unstore(name string) {
	s := r.stored[name]
	if s == nil {
		return
	}
	delete(r.stored, name)
	r.index.take(Spot{}, s)
	r.links -= len(s.Chain)
}

// Lone is a replica that one member alone has as far as it goes.
type Lone struct {
	Node string // id of the member
	Resident
}

// Own counts this node's replicas, and those of them of which nobody else has one that goes as far.
func (r *Register) Own() (alone, all int) {
	furthest, elsewhere := map[string]int{}, map[string]int{}
	for _, l := range r.replicas() {
		if l.Node == "" {
			furthest[l.Replica] = l.Tokens
		} else {
			elsewhere[l.Replica] = max(elsewhere[l.Replica], l.Tokens)
		}
	}
	for name, tokens := range furthest {
		if elsewhere[name] < tokens {
			alone++
		}
	}
	return alone, len(furthest)
}

// Lone lists the replicas of members of which nobody else, this node included, has one that goes as far; those last used first.
func (r *Register) Lone() []Lone {
	type best struct {
		Lone
		number int
	}
	furthest := map[string]*best{}
	for _, l := range r.replicas() {
		switch b := furthest[l.Replica]; {
		case b == nil || l.Tokens > b.Tokens:
			furthest[l.Replica] = &best{l, 1}
		case l.Tokens == b.Tokens:
			b.number++
		}
	}
	var lone []Lone
	for _, b := range furthest {
		if b.number == 1 && b.Node != "" && len(b.Chain) > 0 {
			lone = append(lone, b.Lone)
		}
	}
	slices.SortFunc(lone, func(a, b Lone) int { return cmp.Or(b.Active.Compare(a.Active), cmp.Compare(a.Replica, b.Replica)) })
	return lone
}

// replicas are all that are known of, whoever has them; node "" is this one.
func (r *Register) replicas() (all []Lone) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.stored {
		all = append(all, Lone{"", *s})
	}
	now := r.cfg.Now()
	for member, list := range r.others {
		if !r.believed(member, now) {
			continue
		}
		for _, s := range list {
			if s.Replica != "" {
				all = append(all, Lone{member, *s})
			}
		}
	}
	return all
}

// storing tells which nodes have replicas of a session, "" for this one. It wants the lock held.
func (r *Register) storing() map[homeKey][]string {
	where := map[homeKey][]string{}
	add := func(node string, s *Resident) {
		if k := (homeKey{s.Model, s.Session}); s.Replica != "" && s.Session != "" && !slices.Contains(where[k], node) {
			where[k] = append(where[k], node)
		}
	}
	for _, s := range r.stored {
		add("", s)
	}
	now := r.cfg.Now()
	for member, list := range r.others {
		for _, s := range list {
			if r.believed(member, now) {
				add(member, s)
			}
		}
	}
	return where
}
