package bench

import (
	"fmt"
	"strconv"
)

// Verdict is whether moving a cache between two nodes is faster than computing the prompt.
type Verdict string

const (
	Pays     Verdict = "pays"    // from some length on
	PaysAll  Verdict = "always"  // at all lengths that were measured
	Never    Verdict = "never"   // at none
	Fails    Verdict = "fails"   // caches do not come, or are of no use
	Switched Verdict = "off"     // kv_share is
	NotKnown Verdict = "unknown" // nothing was measured
)

// worth is the share of the time to compute a prompt that moving must save to count: less is noise.
const worth = 0.05

// gain is what moving saved at one length.
type gain struct {
	tokens int
	saved  float64 // s
	worth  bool
	came   bool // a cache was brought; else the prompt was computed in any case
}

// breakEven is the length from which on moving pays, by gains in the order of their lengths: between two that were measured by
// a straight line, and the shortest one (all) if it pays there already. ok is false if it does not pay at the longest.
func breakEven(gains []gain) (tokens int, all, ok bool) {
	first := len(gains)
	for first > 0 && gains[first-1].worth {
		first--
	}
	if first == len(gains) {
		return 0, false, false
	}
	at := gains[first]
	if first == 0 {
		return at.tokens, true, true
	}
	below := gains[first-1]
	if !below.came || below.saved >= 0 || at.tokens <= below.tokens {
		return at.tokens, false, true // no line to draw
	}
	part := -below.saved / (at.saved - below.saved)
	return below.tokens + int(part*float64(at.tokens-below.tokens)), false, true
}

// judge says in a sentence what the sizes come to; off is why there are none.
func (p *KVPair) judge(off string) {
	way := fmt.Sprintf("(%s → %s)", p.From, p.To)
	var gains []gain
	came, useless := 0, 0
	for _, s := range p.Sizes {
		if s.Error != "" {
			continue
		}
		g := gain{tokens: s.Tokens, saved: s.Saved, came: s.There.came()}
		g.worth = g.came && g.saved > worth*s.Cold
		gains = append(gains, g)
		if g.came {
			came++
		}
		if s.There.Import != nil && s.There.Import.Failed {
			useless++
		}
	}
	switch tokens, all, ok := breakEven(gains); {
	case off != "":
		p.Verdict, p.Says = Switched, off+" "+way
	case len(gains) == 0:
		p.Verdict, p.Says = NotKnown, "nothing was measured "+way
	case ok && all:
		p.Verdict, p.Pays = PaysAll, tokens
		p.Says = fmt.Sprintf("moving pays from %s tokens on, the fewest measured %s", grouped(tokens), way)
	case ok:
		p.Verdict, p.Pays = Pays, tokens
		p.Says = fmt.Sprintf("moving pays from about %s tokens on %s", grouped(about(tokens)), way)
	case useless > 0:
		p.Verdict, p.Says = Fails, fmt.Sprintf("moving fails: the log of %s says why %s", p.To, way)
	case came == 0:
		p.Verdict, p.Says = Never, fmt.Sprintf("never up to %s tokens: the nodes move none, by their figures recomputing is faster %s", grouped(gains[len(gains)-1].tokens), way)
	default:
		p.Verdict, p.Says = Never, fmt.Sprintf("never up to %s tokens, recomputing is faster %s", grouped(gains[len(gains)-1].tokens), way)
	}
}

// about is a number with two digits that mean something.
func about(n int) int {
	unit := 1
	for n/unit >= 100 {
		unit *= 10
	}
	return (n + unit/2) / unit * unit
}

// grouped writes a number with a comma before each three digits.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
