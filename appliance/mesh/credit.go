package mesh

import (
	"fmt"
	"time"

	"viiwork/appliance/status"
)

const (
	// disproofs is how often in a row a member's word about what it holds may be wrong.
	disproofs = 3
	// disbelieveFor is how long its word about that is worth nothing then.
	disbelieveFor = 5 * time.Minute
	// leastClaim is the number of tokens from which on a claim is worth proving.
	leastClaim = 256
)

// credit is how far a member's word about what it holds has proved true.
type credit struct {
	wrong int // in a row
	until time.Time
}

// prove takes note of what came of one claim: how many tokens were said to be held, and how many were, -1 = unknown. lost
// says that this was one too many.
func (c *credit) prove(claimed, cached int, now time.Time) (lost bool) {
	switch {
	case claimed < leastClaim || cached < 0:
		return false
	case 2*cached >= claimed:
		c.wrong = 0
		return false
	}
	if c.wrong++; c.wrong < disproofs {
		return false
	}
	c.wrong, c.until = 0, now.Add(disbelieveFor)
	return true
}

// Prove takes note of what came of an answer of a member that was said to hold so many tokens of its prompt: cached is how
// many the engine had, -1 = unknown.
func (r *Register) Prove(m Member, claimed, cached int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Now()
	c := r.credits[m.ID]
	if c == nil {
		c = &credit{}
	}
	lost := c.prove(claimed, cached, now)
	r.keep(m.ID, c, now)
	if lost {
		r.cfg.Log.Warn("a member does not hold the conversations that it says it holds; its word about that counts for nothing for a while",
			"member", m.Name, "times", disproofs, "tokens_said", claimed, "tokens_there", cached, "for", disbelieveFor)
	}
}

// keep remembers the credit of a member if anything is against it. The members that were wrong and have left for good
// make room for others once there are many.
func (r *Register) keep(member string, c *credit, now time.Time) {
	if c.wrong == 0 && !now.Before(c.until) {
		delete(r.credits, member)
		return
	}
	for other, old := range r.credits {
		if len(r.credits) < maxMembers {
			break
		}
		if r.others[other] == nil && !now.Before(old.until) {
			delete(r.credits, other)
		}
	}
	if r.credits[member] != nil || len(r.credits) < 2*maxMembers {
		r.credits[member] = c
	}
}

// believed wants the lock held.
func (r *Register) believed(member string, now time.Time) bool {
	c := r.credits[member]
	return c == nil || !now.Before(c.until)
}

// doubted is what the owner should know of a member that is not believed.
func (r *Register) doubted(m Member) (status.Warning, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.believed(m.ID, r.cfg.Now()) {
		return status.Warning{}, false
	}
	return status.Warning{
		ID:   "mesh_residents",
		Text: fmt.Sprintf("%s says it holds conversations that its engines have not cached, %d times in a row", m.Name, disproofs),
		Fix:  "look at its engines: do they restart, or share their caches with others? its word counts again after a while",
	}, true
}
