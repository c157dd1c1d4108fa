package route

// classic is the policy Classic: back to where the conversation was if that has a free slot; else by how long the first
// token took per prompt token lately; else the free local backend, else the node with the most free slots. With nothing
// free it waits at the entry.
func classic(s *Snapshot, r *Request) Plan {
	if at := preferred(s, r); at >= 0 {
		return r.at(s, at)
	}
	usable, home := false, -1
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if !n.usable(r) {
			continue
		}
		usable = true
		if n.ID == r.Home && !r.Forget && n.Free() > 0 {
			home = i
		}
	}
	switch {
	case !usable:
		return Plan{}
	case home >= 0:
		return r.at(s, home)
	}
	at := -1
	if !r.Flat {
		at = fastest(s, r)
	}
	if at < 0 {
		at = roomiest(s, r)
	}
	if at < 0 {
		return r.line(s)
	}
	return r.at(s, at)
}

// at plans for a node that has a free slot: for the conversation's backend if that is free, else its free ones take turns.
func (r *Request) at(s *Snapshot, i int) Plan {
	n := &s.Nodes[i]
	free := 0
	for j := range n.Backends {
		if b := &n.Backends[j]; b.Ready && b.free() > 0 {
			free++
		}
	}
	nth := int(r.Seed % uint64(free))
	backend := ""
	for j := range n.Backends {
		b := &n.Backends[j]
		if !b.Ready || b.free() == 0 {
			continue
		}
		if nth == 0 && backend == "" || b.ID == r.HomeBackend && n.ID == r.Home && !r.Forget {
			backend = b.ID
		}
		nth--
	}
	return Plan{Node: n.ID, Backend: backend, Local: n.Local, Reason: reason(s, n, backend, r)}
}

// line waits: at the node the request is pinned to, else in no node's line, to go wherever a slot frees first.
func (r *Request) line(s *Snapshot) Plan {
	p := Plan{Wait: true, Reason: Wait}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; r.Host != "" && n.usable(r) {
			p.Reason = Pinned
			if !n.LineFull {
				p.Node, p.Local = n.ID, n.Local
			}
		}
	}
	return p
}

// within is how much slower than the best a node may be and still get requests.
const within = 1.25

// fastest is the index of a node with a free slot that is about as fast as the best: this one if it is among them, else
// the faster the more often. A node without a score counts as the median one, and one request in twenty goes to such a
// node so that it gets one. -1 = nothing is free or there are no scores.
func fastest(s *Snapshot, r *Request) int {
	known, unscored, best := 0, 0, 0.0
	usualScore := s.score()
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if !n.usable(r) || n.Free() == 0 {
			continue
		}
		score := n.score()
		if score == 0 {
			unscored++
			score = usualScore
		} else {
			known++
		}
		if best == 0 || score < best {
			best = score
		}
	}
	if usualScore == 0 || known+unscored == 0 {
		return -1
	}
	if unscored > 0 && r.Seed%20 == 0 {
		return nthFree(s, r, r.Seed/20%uint64(unscored), func(n *Node) bool { return n.score() == 0 })
	}
	sum := 0.0
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if w := n.weight(r, best, usualScore); w > 0 {
			if n.Local {
				return i
			}
			sum += w
		}
	}
	draw := float64(mix(r.Seed)>>11) / (1 << 53) * sum
	last := -1
	for i := range s.Nodes {
		if w := s.Nodes[i].weight(r, best, usualScore); w > 0 {
			last = i
			if draw -= w; draw < 0 {
				break
			}
		}
	}
	return last
}

func (n *Node) score() float64 { return orElse(n.Score, 1e-9, 1e6, 0) }

// weight is how often a node gets a request, 0 if it is too slow or full.
func (n *Node) weight(r *Request, best, usualScore float64) float64 {
	if !n.usable(r) || n.Free() == 0 {
		return 0
	}
	score := n.score()
	if score == 0 {
		score = usualScore
	}
	if score > best*within {
		return 0
	}
	return best / score
}

// roomiest is the index of this node if it has a free slot, else of the one with the most, -1 if all are full.
func roomiest(s *Snapshot, r *Request) int {
	most, number := 0, uint64(0)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if !n.usable(r) {
			continue
		}
		free := n.Free()
		switch {
		case free > 0 && n.Local:
			return i
		case free > most:
			most, number = free, 1
		case free == most && free > 0:
			number++
		}
	}
	if most == 0 {
		return -1
	}
	return nthFree(s, r, r.Seed%number, func(n *Node) bool { return n.Free() == most })
}

// nthFree is the index of the nth node with a free slot of those meant.
func nthFree(s *Snapshot, r *Request, nth uint64, meant func(*Node) bool) int {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if !n.usable(r) || n.Free() == 0 || !meant(n) {
			continue
		}
		if nth == 0 {
			return i
		}
		nth--
	}
	return -1
}

// mix spreads a number over all bits: seeds may count up.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
