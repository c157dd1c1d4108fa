package mesh

import (
	"strings"
	"time"
)

// Bounds of what one node may say it holds. What passes them is not believed at all.
const (
	// MaxChain is how many links of a prompt are kept: the first keptHead and the last of the rest.
	MaxChain = 256
	keptHead = 16

	maxResidents = 4096                  // of one node
	maxLinks     = 16 << 10              // of all its residents,
	ownLinks     = maxLinks - 4*MaxChain // and as many a node tells of: on the way from one state to the next it may be more
	maxDigest    = 64                    // bytes of a session's digest, and of where its key came from

	maxStored  = 512 // replicas that a node tells of
	keptStored = 16  // links of each: who goes on with it has the last one
	nameDigits = 32  // of a replica's name
)

// Resident is what a node holds of one conversation: in a slot of a backend, or in the engine's own cache beside them, or as
// a replica in the node's store. It is never changed, only replaced.
type Resident struct {
	Model   string
	Backend string // "" = it lies in the store
	Replica string // its name there, 32 hexadecimal digits; "" = it lies in an engine
	Session string // digest; "" = the conversation named none
	Source  string // where the session's key came from
	// Chain is the last prompt, and Marks how many tokens that is at each of its links.
	Chain  []Link
	Marks  []int
	Tokens int       // the last prompt with its answer, by the engine's own count
	Active time.Time // when it was last used, by this node's clock

	id   uint64 // the owner's number for it
	from uint64 // of the one that it has come out of; 0 = none
	// length is how many links a member has told of; the chain is shorter where the index had no room for it.
	length int
}

// newResident gives r the lengths that may be kept and told.
func newResident(r Resident) *Resident {
	if n := len(r.Chain); n > MaxChain {
		tail := n - (MaxChain - keptHead)
		r.Chain = append(r.Chain[:keptHead:keptHead], r.Chain[tail:]...)
		r.Marks = append(r.Marks[:keptHead:keptHead], r.Marks[tail:]...)
	}
	return &r
}

// check holds a stranger's resident against the bounds.
func (r *Resident) check() error {
	switch {
	case r.Model == "" || !isText(r.Model) || !isText(r.Backend),
		(r.Backend == "") == (r.Replica == ""), r.Replica != "" && !isName(r.Replica),
		!isPrintable(r.Session, maxDigest) || !isPrintable(r.Source, maxDigest),
		len(r.Chain) > MaxChain, len(r.Marks) != len(r.Chain), !isCount(r.Tokens):
		return errTooMuch
	}
	last := 0
	for _, m := range r.Marks {
		if m < last || m > r.Tokens {
			return errTooMuch
		}
		last = m
	}
	return nil
}

// isName accepts what kvshare calls a replica.
func isName(s string) bool {
	return len(s) == nameDigits && strings.Trim(s, "0123456789abcdef") == ""
}

// continuedBy tells whether n goes on where r ends, or has most of it: then it has taken r's place. common is how many
// tokens of r it has: of what was asked again the prompt, and not the answer, which may be the most of it.
func (r *Resident) continuedBy(n *Resident, prompt map[Link]bool) (common int, ok bool) {
	if r.Model != n.Model {
		return 0, false
	}
	last := len(r.Chain) - 1
	if last < 0 || len(prompt) == 0 {
		return r.Tokens, last < 0 && len(prompt) == 0 && r.Session == n.Session
	}
	whole := r.Tokens
	if n.Chain[len(n.Chain)-1] == r.Chain[last] {
		whole = r.Marks[last]
	}
	if last == 0 {
		again := len(prompt) == 1 || r.Session != "" && r.Session == n.Session
		return whole, again && prompt[r.Chain[0]]
	}
	at := last
	for at > 0 && !prompt[r.Chain[at]] {
		at--
	}
	switch {
	case at == 0: // all conversations begin alike
		return 0, false
	case at == last:
		return whole, true
	}
	// Without a session the two may as well be two agents that began alike, each in a slot of its own.
	return r.Marks[at], r.Session != "" && r.Session == n.Session && 2*at > last
}
