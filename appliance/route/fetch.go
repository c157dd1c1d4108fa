package route

// Cache is what it takes to move a conversation's cache.
type Cache struct {
	TokenBytes  float64 // of one token
	StateBytes  float64 // of a saved state beside its tokens
	ImportRate  float64 // bytes a second at which an engine reads one; 0 = caches are not moved
	ImportStart float64 // seconds it takes beside the bytes; 0 = unknown
	PullStart   float64 // seconds until the first byte of another node's is there; 0 = unknown
	SaveRate    float64 // bytes a second at which an engine writes one that is not stored yet; 0 = unknown
	Fresh       bool    // stores are kept fresh: a save is worth all of a conversation, not only what its last replica lacks
}

const (
	usualImportStart = 0.5
	usualPullStart   = 0.2
	usualSaveRate    = 2e9
	mostStart        = 600
)

// moving is the bounded form of a Cache, with where a cache would be pulled from.
type moving struct {
	token, state, rate, save float64

	start, pull float64 // s of an import, and of a pull, beside the bytes
	fresh       bool
	looked      bool // for where a cache of this kind would be pulled from
	kind        string
	from        *Node   // nil = nowhere
	there       float64 // tokens it has
	wait        float64 // s until it begins to send
	stops       float64 // s for which its running answers stand still, all together
}

func newMoving(s *Snapshot, r *Request) moving {
	if r.Forget {
		return moving{}
	}
	c := &s.Cache
	return moving{
		rate: orElse(c.ImportRate, 1, 1e13, 0), save: orElse(c.SaveRate, 1, 1e13, usualSaveRate),
		fresh: c.Fresh, token: orElse(c.TokenBytes, 0, 1e9, 0), state: orElse(c.StateBytes, 0, 1e12, 0),
		start: orElse(c.ImportStart, 0, mostStart, usualImportStart), pull: orElse(c.PullStart, 0, mostStart, usualPullStart),
	}
}

func (m *moving) imported(tokens float64) float64 { return m.start + m.bytes(tokens)/m.rate }
func (m *moving) bytes(tokens float64) float64    { return m.token*tokens + m.state }

// source is where n would pull the cache from, nil = nowhere: the node that has most of it, and of several the home. It need
// not be the home, which may have begun anew or be the very node that wants it. Nodes of one kind have the same one, and
// mostly all are of one kind.
func (p *pricing) source(n *Node) *Node {
	m := &p.moving
	if m.looked && m.kind == n.Kind {
		return m.from
	}
	m.looked, m.kind, m.from, m.there = true, n.Kind, nil, 0
	writes := save{}
	for i := range p.s.Nodes {
		o := &p.s.Nodes[i]
		if o.Kind != m.kind || o.Stale || o.Quarantined || !(o.Link > 0) {
			continue
		}
		gives, before := p.gives(o)
		if gives > m.there || gives > 0 && gives == m.there && o.ID == p.r.Home {
			m.from, m.there, writes = o, gives, before
		}
	}
	if m.from != nil {
		m.wait = m.pull + min(max(0, m.from.Sending.Seconds()), 1e5) + writes.seconds
		m.stops = writes.seconds * float64(writes.decoding)
	}
	return m.from
}

// save is what has to be written down before it can be sent.
type save struct {
	seconds  float64 // the engine stands still for it
	decoding int     // answers that it generates
}

// gives is how many tokens of the prompt a node can send, and what it has to save for that. What does not pay it will not save.
func (p *pricing) gives(n *Node) (tokens float64, before save) {
	if n.Unsaved > n.Replica {
		tokens = min(float64(count(n.Unsaved)), p.prompt)
		before = save{seconds: p.moving.bytes(tokens) / p.moving.save}
		prefill := 0.0
		for i := range n.Backends {
			if b := &n.Backends[i]; b.Held >= n.Unsaved {
				prefill, before.decoding = b.Prefill, count(b.Decoding)
			}
		}
		stake := int(tokens)
		if !p.moving.fresh {
			stake -= count(n.Replica)
		}
		if SavePays(stake, orElse(prefill, minRate, maxRate, p.prefill), before.seconds, before.decoding) {
			return tokens, before
		}
	}
	return min(float64(count(n.Replica)), p.prompt), save{}
}

// fetch weighs computing the prompt against moving its cache there: it returns what the backend would hold, and the
// seconds that takes. For less than a block more it is not worth anybody's trouble.
func (p *pricing) fetch(c *Candidate, n *Node, held, P float64) (holds, seconds float64) {
	m := &p.moving
	if m.rate == 0 {
		return held, 0
	}
	holds = held
	least := (p.prompt - held) / P
	if own := min(float64(count(n.Replica)), p.prompt); own >= held+block {
		took := m.imported(own)
		if all := took + (p.prompt-own)/P; all < least {
			holds, seconds, least = own, took, all
			c.Fetch = Import
		}
	}
	from := p.source(n)
	if from == nil || from == n || m.there < holds+block {
		return holds, seconds
	}
	lacks := m.there - min(m.there, float64(count(n.Replica)))
	took := m.wait + m.bytes(lacks)/from.Link + m.imported(m.there)
	if took+(p.prompt-m.there)/P < least {
		holds, seconds = m.there, took
		c.Fetch = Pull
	}
	return holds, seconds
}

// Fetch weighs for one backend what Pick weighs for all: whether to compute a request's prompt or to bring its cache along.
// kind is Import from the node's own store, Pull from node from, or "" for neither; holds is how many tokens the backend has
// then, and seconds what bringing it takes.
func Fetch(s Snapshot, r Request, node, backend string) (kind Reason, from string, holds int, seconds float64) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		for j := range n.Backends {
			if b := &n.Backends[j]; n.ID == node && b.ID == backend {
				return newPricing(&s, &r).fetchFor(n, b)
			}
		}
	}
	return "", "", 0, 0
}

func (p pricing) fetchFor(n *Node, b *Backend) (kind Reason, from string, holds int, seconds float64) {
	var c Candidate
	tokens, took := p.fetch(&c, n, p.held(b), orElse(b.Prefill, minRate, maxRate, p.prefill))
	if c.Fetch == Pull {
		from = p.source(n).ID
	}
	return c.Fetch, from, int(tokens), took
}

// SavePays tells whether it is worth it to write an engine's slot down: computing the tokens that are at stake again must take
// longer than all streams of the engine together lose while it stands still for so many seconds. At stake is what no earlier
// replica has; where replicas are to be fresh at any time, all of the slot. prefill is in tokens a second, 0 = unknown.
func SavePays(tokens int, prefill, seconds float64, decoding int) bool {
	return float64(count(tokens))/orElse(prefill, minRate, maxRate, usualPrefill) > max(0, seconds)*float64(1+count(decoding))
}
