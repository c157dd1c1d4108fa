package route

// Cache is what it takes to move a conversation's cache.
type Cache struct {
	TokenBytes float64 // of one token
	StateBytes float64 // of a saved state beside its tokens
	ImportRate float64 // bytes a second at which an engine reads one; 0 = caches are not moved
}

const (
	importStart = 0.5 // s, beside the bytes
	pullStart   = 0.2
)

// moving is the bounded form of a Cache, with where a cache would be pulled from.
type moving struct {
	token, state, rate float64
	from               *Node   // nil = nowhere
	there              float64 // tokens it has
	wait               float64 // s until it begins to send
}

func newMoving(s *Snapshot, r *Request, prompt float64) moving {
	if r.Forget {
		return moving{}
	}
	m := moving{rate: orElse(s.Cache.ImportRate, 1, 1e13, 0), token: orElse(s.Cache.TokenBytes, 0, 1e9, 0), state: orElse(s.Cache.StateBytes, 0, 1e12, 0)}
	if m.from = source(s, r); m.from != nil {
		m.there = min(float64(count(m.from.Replica)), prompt)
		m.wait = pullStart + min(max(0, m.from.Sending.Seconds()), 1e5)
	}
	return m
}

func (m *moving) imported(tokens float64) float64 { return importStart + m.bytes(tokens)/m.rate }
func (m *moving) bytes(tokens float64) float64    { return m.token*tokens + m.state }

// source is the node a cache would be pulled from: the home, else the one with the longest replica.
func source(s *Snapshot, r *Request) *Node {
	if !(s.Cache.ImportRate > 0) {
		return nil
	}
	var best *Node
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Stale || n.Quarantined || n.Replica <= 0 || !(n.Link > 0) {
			continue
		}
		if n.ID == r.Home {
			return n
		}
		if best == nil || n.Replica > best.Replica {
			best = n
		}
	}
	return best
}

// fetch weighs computing the prompt against moving its cache there: it returns what the backend would hold, and the
// seconds that takes.
func (p *pricing) fetch(c *Candidate, n *Node, held, P float64) (holds, seconds float64) {
	m := &p.moving
	if m.rate == 0 {
		return held, 0
	}
	holds = held
	least := (p.prompt - held) / P
	if own := min(float64(count(n.Replica)), p.prompt); own > held {
		took := m.imported(own)
		if all := took + (p.prompt-own)/P; all < least {
			holds, seconds, least = own, took, all
			c.Fetch = Import
		}
	}
	if m.from == nil || m.from == n || m.there <= holds {
		return holds, seconds
	}
	lacks := m.there - min(m.there, float64(count(n.Replica)))
	took := m.wait + m.bytes(lacks)/m.from.Link + m.imported(m.there)
	if took+(p.prompt-m.there)/P < least {
		holds, seconds = m.there, took
		c.Fetch = Pull
	}
	return holds, seconds
}
