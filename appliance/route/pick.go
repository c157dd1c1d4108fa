package route

// Pick plans one request. A node that the client prefers and that has a free slot comes before all others; within what
// is left the policy decides.
func Pick(s Snapshot, r Request) Plan {
	if r.Policy == Classic {
		return classic(&s, &r)
	}
	return cheapest(&s, &r)
}

// preferred is the index of the first node the client prefers that has a free slot, -1 = none.
func preferred(s *Snapshot, r *Request) int {
	for _, name := range r.Prefer {
		for i := range s.Nodes {
			if n := &s.Nodes[i]; n.Name == name && n.usable(r) && n.Free() > 0 {
				return i
			}
		}
	}
	return -1
}

// cheapest is the policy Cost.
func cheapest(s *Snapshot, r *Request) Plan {
	only := preferred(s, r)
	all := candidates(s, r, only)
	if len(all) == 0 {
		return Plan{}
	}
	costs := newPricing(s, r)
	costs.price(all)
	at := choose(s, r, all)
	if at < 0 {
		return Plan{Wait: true, Reason: Wait, Candidates: all}
	}
	c := &all[at]
	n := &s.Nodes[c.node]
	p := Plan{Node: c.Node, Backend: c.Backend, Local: n.Local, Wait: c.Free == 0, Reason: reason(s, n, c.Backend, r), Fetch: c.Fetch, Candidates: all}
	if p.Fetch == Pull {
		p.From = costs.source(n).ID
	}
	if p.Wait {
		p.Fetch, p.From = "", "" // nothing is moved before there is a slot to move it to
		if p.Reason == Home {
			p.Reason = Wait
		}
		if !c.home && !holdsMost(all, c) {
			p.Backend = ""
		}
	}
	return p
}

// candidates are the backends that could do. Only restricts them to one node, unless it is -1.
func candidates(s *Snapshot, r *Request, only int) []Candidate {
	number := 0
	for i := range s.Nodes {
		if n := &s.Nodes[i]; (only < 0 || only == i) && n.usable(r) {
			number += n.ready()
		}
	}
	if number == 0 {
		return nil
	}
	all := make([]Candidate, 0, number)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if only >= 0 && only != i || !n.usable(r) {
			continue
		}
		room := n.Free()
		for j := range n.Backends {
			b := &n.Backends[j]
			if !b.Ready {
				continue
			}
			all = append(all, Candidate{
				Node: n.ID, Backend: b.ID, Free: min(room, b.free()), room: int32(room), node: int32(i), at: int32(j),
				home: !r.Forget && r.Home != "" && r.Home == n.ID && (r.HomeBackend == b.ID || r.HomeBackend == ""),
			})
		}
	}
	return all
}

// choice is the candidates of one request, priced.
type choice struct {
	s    *Snapshot
	r    *Request
	all  []Candidate
	free bool // one of them has a free slot
}

// choose is the index of the candidate to take, -1 if all are full and no line takes anybody.
func choose(s *Snapshot, r *Request, all []Candidate) int {
	x := choice{s: s, r: r, all: all}
	for i := range all {
		x.free = x.free || all[i].Free > 0
	}
	best, home, least := -1, -1, 0.0
	for i := range all {
		c := &all[i]
		if !x.open(c) {
			continue
		}
		if c.home && (home < 0 || c.Total < all[home].Total) {
			home = i
		}
		if best < 0 || c.Total < least {
			best, least = i, c.Total
		}
	}
	w := s.weights()
	switch {
	case best < 0:
		return -1
	case home >= 0 && all[home].Total-least <= max(w.Leave, w.LeaveShare*all[home].Total):
		return home
	case !x.free && r.Stands != "":
		if at := x.standing(); at >= 0 {
			return at
		}
	}
	return x.turn(least)
}

// open tells whether the request can have a slot of c, or wait for one.
func (x *choice) open(c *Candidate) bool { return c.Free > 0 || x.mayWait(c) }

// mayWait tells whether a full backend may be waited for. While a slot is free elsewhere that is the home alone, which
// is worth a wait only for what the prompt would cost elsewhere; a prompt of unknown size is worth none.
func (x *choice) mayWait(c *Candidate) bool {
	n := &x.s.Nodes[c.node]
	if n.LineFull && x.r.Stands != n.ID {
		return false
	}
	if !x.free {
		return true
	}
	if !c.home || x.r.Prompt <= 0 {
		return false
	}
	left := x.r.Left.Seconds()
	switch busy := x.s.busy(); {
	case left <= 0 || busy > crowded:
		return true
	case busy <= calm && c.Queue > left:
		return false
	}
	return left > lastMoments
}

const (
	// lastMoments are the seconds before a request is refused: enough for two looks at the mesh.
	lastMoments = 1.2
	// crowded is the share of busy slots from which on a prompt computed anew costs the others more than a refusal costs
	// its client, who will try again.
	crowded = 0.72
	// calm is the share up to which a request goes elsewhere at once if it would be refused before it has its slot.
	calm = 0.5
)

// standing is the cheapest backend of the node in whose line the request stands: from there it goes only to a free slot.
func (x *choice) standing() int {
	best := -1
	for i := range x.all {
		if x.all[i].Node == x.r.Stands && (best < 0 || x.all[i].Total < x.all[best].Total) {
			best = i
		}
	}
	return best
}

// alike is by how many seconds two costs may differ and still be the same.
const alike = 0.02

// turn chooses between equals: the home, else the node with the most free slots, then the backend, else they take turns.
func (x *choice) turn(least float64) int {
	most, number := [2]int{-1, -1}, 0
	same := func(c *Candidate) ([2]int, bool) {
		if c.Total > least+alike || !x.open(c) {
			return most, false
		}
		if c.home {
			return [2]int{maxSlots * maxSlots, 0}, true
		}
		return [2]int{int(c.room), c.Free}, true
	}
	more := func(a, b [2]int) bool { return a[0] > b[0] || a[0] == b[0] && a[1] > b[1] }
	for i := range x.all {
		room, ok := same(&x.all[i])
		switch {
		case !ok:
		case more(room, most):
			most, number = room, 1
		case room == most:
			number++
		}
	}
	nth := int(x.r.Seed % uint64(number))
	for i := range x.all {
		if room, ok := same(&x.all[i]); ok && room == most {
			if nth == 0 {
				return i
			}
			nth--
		}
	}
	return -1 // not reached: number counts what this loop finds
}

// holdsMost tells whether c holds more of the prompt than any other backend of its node, so that it alone will do.
func holdsMost(all []Candidate, c *Candidate) bool {
	for i := range all {
		if o := &all[i]; o != c && o.node == c.node && o.Held+block > c.Held {
			return false
		}
	}
	return c.Held >= block
}

// block is the least number of tokens worth naming a backend for.
const block = 256
