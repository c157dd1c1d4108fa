package bench

import (
	"strings"
	"time"
)

// Turn is what came of one turn of an agent.
type Turn struct {
	At      time.Duration // since the run began, when it was first tried
	Session int           // from 1, in the order in which they began
	Nr      int           // within the session, from 1
	Kind    string        // first, ordinary, summary or rewritten
	Named   bool          // the session has a key

	Entry                     string // by its address
	Node, Backend, Route, Key string // what the answer's headers say; "" = they do not

	Prompt, Cached, Output int // tokens, by the engine's count; -1 = it did not say
	Had                    int // tokens of the session before this turn

	TTFT     time.Duration // from the first try to the first token, refusals included
	Took     time.Duration // to the end
	Queue    time.Duration // in the entry's line; -1 = not known
	Refusals int           // before it was answered, or given up
	Moved    Moved
	Error    string // why there is no whole answer, in a few words of ours; "" = there is
}

// Moved says how far a session went between two turns.
type Moved int

// Nowhere, to another backend of its node, to another node.
const (
	Stayed Moved = iota
	MovedBackend
	MovedNode
)

func (m Moved) String() string { return [...]string{"", "backend", "node"}[m] }

// Class of a turn: how much of its prompt the engine had already.
type Class int

// At least 90 %, at least 30 %, less; and not known.
const (
	Warm Class = iota
	Partly
	Cold
	Unknown
)

func (c Class) String() string { return [...]string{"warm", "partly", "cold", "unknown"}[c] }

// Class is that of the turn.
func (t Turn) Class() Class {
	if t.Prompt <= 0 || t.Cached < 0 {
		return Unknown
	}
	switch share := float64(t.Cached) / float64(t.Prompt); {
	case share >= 0.9:
		return Warm
	case share >= 0.3:
		return Partly
	}
	return Cold
}

// Hit reports whether at least 80 % of what the session had was there.
func (t Turn) Hit() bool { return t.Cached >= 0 && float64(t.Cached) >= 0.8*float64(t.Had) }

// ordinary turns are those that a placement can help: neither a session's first nor one of a history just rewritten.
func (t Turn) ordinary() bool { return t.Kind == "ordinary" && t.Error == "" }

// moved is how far the turn went from the one before.
func (t Turn) moved(before Turn) Moved {
	switch {
	case t.Node == "" || before.Node == "":
		return Stayed
	case t.Node != before.Node:
		return MovedNode
	case t.Backend != before.Backend && t.Backend != "" && before.Backend != "":
		return MovedBackend
	}
	return Stayed
}

const maxName = 120

// name is a name that an entry sent, made fit for a table, a page and a spreadsheet, where a cell that begins with one of
// =+-@ would be a formula.
func name(text string) string {
	text = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._:/#", r) {
			return r
		}
		return '_'
	}, text[:min(len(text), maxName)])
	if strings.HasPrefix(text, "-") {
		text = "_" + text[1:]
	}
	return text
}
