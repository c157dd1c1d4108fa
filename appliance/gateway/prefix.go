package gateway

import "viiwork/appliance/mesh"

// A prefix tells how a prompt begins, by its steps: a head (model, tools, system text, template options), then each message,
// or each block of a plain prompt. Of two prompts a cache can serve what their common steps hold: an engine computes a
// prompt from its first token that differs. Neither the text nor anything it could be guessed from is in it, but for
// who has the session key.
const (
	// maxHeads and maxTails bound how many links are kept, of the first steps and of the last. A conversation goes on where
	// it ended, or, rewritten, near where it began; one that branches off in between is found by its beginning.
	maxHeads = 64
	maxTails = 512
	// maxSteps is how many steps are told apart at all. Real prompts have hundreds; one of millions of empty messages must
	// cost no digest each.
	maxSteps = 16 << 10
	// blockBytes is a step of a prompt that has no messages.
	blockBytes = 1 << 10
)

// prefix is never changed once it is made.
type prefix struct {
	Links []mesh.Link // of the first maxHeads and the last maxTails steps
	ends  []extent    // beside each: what the prompt holds up to there
	steps int         // all of them
	whole extent      // of the prompt, with what follows the last step
}

// extent is a length of prompt, for telling its tokens.
type extent struct {
	text int // bytes of text
	data int // pictures and the like, each one part whatever its size
}

func (e extent) since(d extent) extent { return extent{e.text - d.text, e.data - d.data} }

// at is where in Links the i-th step stands, -1 if its link was not kept.
func (p *prefix) at(i int) int {
	switch tail := p.steps - min(len(p.Links), maxTails); {
	case i < 0 || i >= p.steps:
		return -1
	case p.steps == len(p.Links), i < maxHeads:
		return i
	case i >= tail:
		return i - p.steps + len(p.Links)
	}
	return -1
}

// end is what the first n steps hold. It is exact only where the n-th link was kept, and never more than that elsewhere.
func (p *prefix) end(n int) extent {
	for ; n > 0; n-- {
		if k := p.at(n - 1); k >= 0 {
			return p.ends[k]
		}
	}
	return extent{}
}

// common is how many steps from the first on both prompts have, as far as the kept links tell: the longest common chain.
// As each link vouches for all before it, the last equal pair decides.
func (p *prefix) common(q *prefix) int {
	for i := min(p.steps, q.steps) - 1; i >= 0; i-- {
		a, b := p.at(i), q.at(i)
		if a >= 0 && b >= 0 && p.Links[a] == q.Links[b] {
			return i + 1
		}
	}
	return 0
}

// minHistory is how many steps a conversation has at least for its history to be called rewritten.
const minHistory = 4

// compacted tells whether now is a conversation's prompt with its history rewritten to a shorter one since old. Its cache is
// worth little more than the head, wherever it runs. A side request of the same session has another head, an edited last
// message keeps most of the history.
func compacted(old, now *prefix) bool {
	n := old.common(now)
	if n == 0 || n == old.steps || old.steps < minHistory {
		return false
	}
	head := old.end(1)
	had, kept, has := old.whole.since(head), old.end(n).since(head), now.whole.since(now.end(1))
	return 2*kept.text < had.text && 4*has.text < 3*had.text
}
