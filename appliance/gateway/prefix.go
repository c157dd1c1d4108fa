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
