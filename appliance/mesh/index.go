package mesh

import (
	"slices"
	"time"
)

// maxIndex bounds the links that are indexed, of all nodes together; a resident beyond it is found by its session only.
const maxIndex = 512 << 10

// Spot is one backend of one node; Node "" is this one.
type Spot struct{ Node, Backend string }

// site is a spot that the index knows.
type site struct {
	spot      Spot
	residents int
	met       uint64 // the last search that has met it
}

// index finds residents by the links of their chains.
type index struct {
	links  map[Link]*crossing
	sites  map[Spot]*site
	edges  int
	search uint64 // number of the last one
}

func newIndex() index { return index{links: map[Link]*crossing{}, sites: map[Spot]*site{}} }

// crossing is one link and the residents whose chains pass it.
type crossing struct {
	next    Link         // where they go on; the zero Link = nowhere
	nexts   int          // how many go on there
	other   map[Link]int // and elsewhere: then the link is shared, and decides nothing
	holders []holder
}

// holder is a spot that has residents at a crossing.
type holder struct {
	site   *site
	number int // of residents
	ends   int // of them that end here
	mark   int // tokens of the prompt up to here
	whole  int // tokens of one that ends here, with its answer
	size   int // tokens of the last one that came by
	active time.Time
}

func (x *index) room(n int) bool { return x.edges+n <= maxIndex }

// add puts a resident in. take must be called with the same one.
func (x *index) add(at Spot, r *Resident) {
	s := x.sites[at]
	if s == nil {
		s = &site{spot: at}
		x.sites[at] = s
	}
	s.residents++
	for i, l := range r.Chain {
		c := x.links[l]
		if c == nil {
			c = &crossing{}
			x.links[l] = c
		}
		last := i == len(r.Chain)-1
		if !last && r.Replica == "" { // a store may have what a conversation was before it was rewritten
			c.leads(r.Chain[i+1])
		}
		h := c.holder(s)
		h.number++
		h.mark, h.size = r.Marks[i], r.Tokens
		if last {
			h.ends++
			h.whole = r.Tokens
		}
		if r.Active.After(h.active) {
			h.active = r.Active
		}
	}
	x.edges += len(r.Chain)
}

func (x *index) take(at Spot, r *Resident) {
	s := x.sites[at]
	if s.residents--; s.residents == 0 {
		delete(x.sites, at)
	}
	for i, l := range r.Chain {
		c := x.links[l]
		last := i == len(r.Chain)-1
		if !last && r.Replica == "" {
			c.leaves(r.Chain[i+1])
		}
		h := c.holder(s)
		h.number--
		if last {
			if h.ends--; h.ends == 0 {
				h.whole = 0
			}
		}
		if h.number == 0 {
			c.holders = slices.DeleteFunc(c.holders, func(h holder) bool { return h.number == 0 })
		}
		if len(c.holders) == 0 {
			delete(x.links, l)
		}
	}
	x.edges -= len(r.Chain)
}

func (c *crossing) holder(s *site) *holder {
	for i := range c.holders {
		if c.holders[i].site == s {
			return &c.holders[i]
		}
	}
	c.holders = append(c.holders, holder{site: s})
	return &c.holders[len(c.holders)-1]
}

func (c *crossing) leads(next Link) {
	switch {
	case c.nexts == 0 || c.next == next:
		c.next = next
		c.nexts++
	default:
		if c.other == nil {
			c.other = map[Link]int{}
		}
		c.other[next]++
	}
}

func (c *crossing) leaves(next Link) {
	if c.next == next && c.nexts > 0 {
		c.nexts--
	} else if c.other[next]--; c.other[next] <= 0 {
		delete(c.other, next)
	}
	for next, n := range c.other { // one of them takes the first's place
		if c.nexts == 0 {
			c.next, c.nexts = next, n
			delete(c.other, next)
		}
		break
	}
}

func (c *crossing) shared() bool { return len(c.other) > 0 }

// held is what a spot holds of a prompt.
type held struct {
	spot   Spot
	tokens int
	mark   int  // tokens of the prompt itself up to there
	alone  bool // at a link that tells a conversation from others
	ends   bool // a conversation that it has ends there
	depth  int
	active time.Time
}

// mostly tells whether a state is the prompt's, at least for the greater part: it is moved as a whole, which for those that
// merely begin alike takes longer than what they have in common is worth.
func (h *holder) mostly() bool { return h.ends > 0 || 2*h.mark >= h.size }

// find lists the spots that hold any of a prompt, those that hold most links of it first. What lies in a store counts only if
// it is mostly the prompt's.
func (x *index) find(prompt []Link, into []held) []held {
	x.search++
	for i := len(prompt) - 1; i >= 0 && len(into) < len(x.sites); i-- {
		c := x.links[prompt[i]]
		if c == nil {
			continue
		}
		alone := i > 0 && !c.shared() // all begin alike
		for _, h := range c.holders {
			if h.site.met == x.search || h.site.spot.Backend == "" && !h.mostly() {
				continue
			}
			h.site.met = x.search
			tokens := h.mark
			if i < len(prompt)-1 && h.whole > tokens { // what follows first is the answer
				tokens = h.whole
			}
			into = append(into, held{h.site.spot, tokens, h.mark, alone, h.ends > 0, i, h.active})
		}
	}
	return into
}
