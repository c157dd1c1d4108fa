package mesh

import "time"

const (
	// livesFor is how long after its last answer a conversation counts as living at its backend.
	livesFor = 300 * time.Second
	recount  = time.Second

	maxShelf   = 64 // residents of one backend
	newShelf   = 16 // as many may be there before anything has proved
	leastShelf = 4
)

// shelf is what one backend of this node holds, the longest unused first. Nobody tells what an engine keeps beside its
// slots, so its room is learned: what has turned out to be gone was the last that could have been there.
type shelf struct {
	list []*Resident
	room int

	living  int // as counted at that time; it is asked for at each plan
	counted time.Time
}

func (r *Register) shelf(backend string) *shelf {
	s := r.own[backend]
	if s == nil {
		s = &shelf{room: newShelf}
		r.own[backend] = s
	}
	return s
}

// find is the index of the resident that a new one has come out of, and how many tokens the two have in common; -1 = none.
func (s *shelf) find(n *Resident) (i, common int) {
	prompt := make(map[Link]bool, len(n.Chain))
	for _, l := range n.Chain {
		prompt[l] = true
	}
	for i := len(s.list) - 1; i >= 0; i-- {
		if common, ok := s.list[i].continuedBy(n, prompt); ok {
			return i, common
		}
	}
	return -1, 0
}

// prove tells whether the belief held that a resident was there. An engine drops what was unused for longest: if i was
// gone, all that is older is.
func (s *shelf) prove(i, claimed, cached int) bool {
	if cached < 0 || claimed < leastClaim {
		return true
	}
	if 2*cached >= claimed {
		if i == 0 && len(s.list) == s.room {
			s.room = min(s.room+1, maxShelf)
		}
		return true
	}
	s.room = max(len(s.list)-1-i, leastShelf)
	return false
}

// learn takes note of a conversation that was not believed to be there: if most of it was, there is more room.
func (s *shelf) learn(cached, tokens int) {
	if cached >= leastClaim && 2*cached >= tokens && len(s.list) >= s.room {
		s.room = min(s.room+1, maxShelf)
	}
}

// alive counts conversations, each session once, that were active lately. One without a session and with little to
// find it by is at home nowhere.
func (s *shelf) alive(now time.Time) int {
	if since := now.Sub(s.counted); since >= 0 && since < recount {
		return s.living
	}
	n, since := 0, now.Add(-livesFor)
	for i, r := range s.list {
		nameless := r.Session == ""
		if r.Active.Before(since) || nameless && r.Tokens < leastClaim || !nameless && s.later(i) {
			continue
		}
		n++
	}
	s.living, s.counted = n, now
	return n
}

// later tells whether the session of resident i has another one further on.
func (s *shelf) later(i int) bool {
	for _, r := range s.list[i+1:] {
		if r.Session == s.list[i].Session && r.Model == s.list[i].Model {
			return true
		}
	}
	return false
}
