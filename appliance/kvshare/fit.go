package kvshare

import "viiwork/appliance/mesh"

// fit is how well a state does for a prompt.
type fit struct {
	at     int  // the last link of the prompt that it has, -1 = none
	ends   bool // and there it ends, but for the answer: the prompt goes on with it
	tokens int  // of it all
}

// fitOf holds a state against the links of a prompt.
func fitOf(stay *mesh.Resident, at map[mesh.Link]int) fit {
	for i := len(stay.Chain) - 1; i >= 0; i-- {
		if n, ok := at[stay.Chain[i]]; ok {
			return fit{n, i == len(stay.Chain)-1, stay.Tokens}
		}
	}
	return fit{at: -1}
}

// beats tells which of two to take: it is moved as a whole, so of those that go on otherwise than the prompt it is the shortest.
func (f fit) beats(o fit) bool {
	switch {
	case f.at != o.at:
		return f.at > o.at
	case f.ends != o.ends:
		return f.ends
	case f.ends:
		return f.tokens > o.tokens
	}
	return f.tokens < o.tokens
}
