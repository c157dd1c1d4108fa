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

func (c Cache) bytes(tokens float64) float64 {
	return orElse(c.TokenBytes, 0, 1e9, 0)*tokens + orElse(c.StateBytes, 0, 1e12, 0)
}

// source is the node a cache would be pulled from: the home, else the one with the longest replica.
func source(s *Snapshot, r *Request) *Node {
	if s.Cache.ImportRate <= 0 || r.Forget {
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
func (p *pricing) fetch(c *Candidate, n *Node, held, prompt, P float64) (holds, seconds float64) {
	rate := orElse(p.s.Cache.ImportRate, 1, 1e13, 0)
	if rate == 0 || p.r.Forget {
		return held, 0
	}
	holds = held
	least := (prompt - held) / P
	if own := min(float64(count(n.Replica)), prompt); own > held {
		took := importStart + p.s.Cache.bytes(own)/rate
		if all := took + (prompt-own)/P; all < least {
			holds, seconds, least = own, took, all
			c.Fetch = Import
		}
	}
	if from := p.source; from != nil && from != n {
		there := min(float64(count(from.Replica)), prompt)
		if there <= holds {
			return holds, seconds
		}
		lacks := there - min(there, float64(count(n.Replica)))
		took := importStart + p.s.Cache.bytes(there)/rate + pullStart + p.s.Cache.bytes(lacks)/from.Link + min(max(0, from.Sending.Seconds()), 1e5)
		if took+(prompt-there)/P < least {
			holds, seconds = there, took
			c.Fetch, c.From = Pull, from.ID
		}
	}
	return holds, seconds
}
