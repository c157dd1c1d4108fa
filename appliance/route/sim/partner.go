package sim

import "math"

// partner is the node that gets copies of a session: where few sessions live for the slots there are, fast ones rather,
// and the same one as long as it is not the home.
func (n *node) partner(s *session) *node {
	if to := n.store.mate[s]; to != nil {
		return to
	}
	var best *node
	least := 0.0
	for _, o := range n.w.nodes {
		if o == n {
			continue
		}
		residents, slots := 0, 0
		for _, e := range o.engines {
			residents += len(e.residents)
			slots += e.class.slots
		}
		cost := float64(residents)/float64(slots) - 0.1*math.Log(o.engines[0].class.prefill)
		if o.store.get(s) > 0 {
			cost -= 0.5
		}
		if best == nil || cost < least {
			best, least = o, cost
		}
	}
	if n.store.mate == nil {
		n.store.mate = map[*session]*node{}
	}
	if best != nil {
		n.store.mate[s] = best
	}
	return best
}
