package sim

import (
	"math"
	"math/rand/v2"
)

// Work is what agents do: how long their prompts and answers are, and how long they think.
type Work struct {
	Head   int     // tokens of a session's beginning
	Common int     // of which all sessions share so many; the rest is that of its group
	Groups int     // of sessions with one first message
	Output float64 // median tokens of an answer
	Scale  float64 // of all token counts; 0 = 1
	Room   int     // tokens that prompt and answer may have together, whatever the scale; 0 = any number
	Think  float64 // of all times to think
}

// UsualWork is that of coding agents, in tokens as they are.
func UsualWork() Work {
	return Work{Head: 6000, Common: 4000, Groups: 1, Output: 350, Think: 1}
}

// What a session has beside its head, in tokens.
const (
	opening      = 100    // of its first message that are its own
	summaryAsk   = 300    // to ask for a summary of the history
	summaryText  = 1250   // the summary
	rewriteText  = 2500   // what stands for the history from then on
	mostAddition = 12_000 // of a turn
	leastLimit   = 60_000 // at which the history is rewritten, and up to
	limitSpread  = 35_001 // so many more
)

// Kind of a turn.
type Kind int

// The first turn of a session, an ordinary one, the one that asks for a summary of a history grown too long, and the
// first with the history rewritten.
const (
	Ordinary Kind = iota
	First
	Summary
	Rewritten
)

// String is the kind's name.
func (k Kind) String() string { return [...]string{"ordinary", "first", "summary", "rewritten"}[k] }

// Turn is what an agent does next.
type Turn struct {
	Kind   Kind    // First begins a session
	Think  float64 // s before it
	Prompt int     // tokens
	Added  int     // of those, what no turn before had: not the head, nor the history
	Output int     // tokens of the answer, at most
}

// Course is the work of one agent: session after session, each growing turn by turn, for ever. It is not safe for
// concurrent use.
type Course struct {
	work  Work
	rng   *rand.Rand
	last  Kind
	left  int // turns of the session
	limit int // tokens at which it rewrites its history
	begun bool
}

// NewCourse makes the work of an agent. Of one rng it is always the same.
func NewCourse(w Work, rng *rand.Rand) *Course {
	if w.Scale == 0 {
		w.Scale = 1
	}
	return &Course{work: w, rng: rng}
}

// LeastRoom is how many tokens prompt and answer must be able to have together: less, and a session would be summaries
// of summaries.
func (w Work) LeastRoom() int {
	c := NewCourse(w, nil)
	return c.scaled(w.Head+rewriteText+mostAddition) + c.ending()
}

// Begin is the first turn of another session. That with which an agent starts is somewhere in its course.
func (c *Course) Begin() Turn {
	think := 0.0
	if c.begun {
		think = c.thought()
	}
	c.left = 40 + c.rng.IntN(121)
	if !c.begun {
		c.left = 1 + c.rng.IntN(c.left)
	}
	c.begun = true
	c.limit = c.scaled(leastLimit + c.rng.IntN(limitSpread))
	if c.work.Room > 0 {
		c.limit = min(c.limit, c.work.Room-c.ending())
	}
	t := c.turn(First, c.scaled(c.work.Head), c.scaled(opening))
	t.Think = think
	return t
}

// Next is the turn after an answer; context is the tokens of its prompt and itself.
func (c *Course) Next(context int) Turn {
	c.left--
	if c.last == Summary {
		t := c.turn(Rewritten, c.scaled(c.work.Head), c.scaled(rewriteText)+c.addition())
		t.Think = c.moment()
		return t
	}
	if c.left <= 0 {
		return c.Begin()
	}
	if more := c.addition(); context+more <= c.limit {
		t := c.turn(Ordinary, context, more)
		t.Think = c.thought()
		return t
	}
	c.last = Summary
	ask := c.scaled(summaryAsk)
	return Turn{Kind: Summary, Think: c.moment(), Prompt: context + ask, Added: ask, Output: c.scaled(summaryText)}
}

func (c *Course) turn(k Kind, had, more int) Turn {
	c.last = k
	return Turn{Kind: k, Prompt: had + more, Added: more, Output: c.output()}
}

// ending is the tokens that a session may still need once it has reached its limit: the answer to that, and the summary.
func (c *Course) ending() int { return c.scaled(int(c.mostOutput()) + summaryAsk + summaryText) }

func (c *Course) mostOutput() float64 { return 800 * c.work.Output / 350 }

func (c *Course) output() int {
	return c.scaled(int(min(max(logNormal(c.rng, c.work.Output, 0.6), 100), c.mostOutput())))
}

func (c *Course) addition() int {
	return c.scaled(int(min(max(logNormal(c.rng, 180, 1.75), 20), mostAddition)))
}

// moment is what an agent takes by itself between two turns.
func (c *Course) moment() float64 { return c.work.Think * 0.5 }

func (c *Course) thought() float64 { return c.work.Think * min(logNormal(c.rng, 8, 1.1), 240) }

// scaled is never nothing.
func (c *Course) scaled(tokens int) int {
	return max(1, int(math.Round(float64(tokens)*c.work.Scale)))
}

func logNormal(rng *rand.Rand, median, sigma float64) float64 {
	return median * math.Exp(sigma*rng.NormFloat64())
}
