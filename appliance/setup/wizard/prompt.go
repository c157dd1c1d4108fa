package wizard

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Prompter is how the wizard speaks with an owner. Its questions return [ErrLeft] when the owner leaves, and [ErrNobody]
// when there is nobody to answer: nothing is ever taken as answered.
type Prompter interface {
	// Tell shows lines to read.
	Tell(text string)
	// Choose asks for one of the options and returns its place.
	Choose(ctx context.Context, q Question) (int, error)
	// Pick asks for any number of the options.
	Pick(ctx context.Context, q Question) ([]int, error)
	// Ask asks for a line of text.
	Ask(ctx context.Context, q Question) (string, error)
}

// Question is what is asked, with what Enter alone answers.
type Question struct {
	Title   string
	Help    string // a sentence or two; "" = the title says it all
	Options []string
	At      int                // Choose: the option that Enter takes
	Picked  []int              // Pick: those that are marked at first
	Text    string             // Ask: the answer that Enter gives
	Secret  bool               // Ask: the answer is not repeated on the screen
	Check   func(string) error // Ask: what is wrong with an answer; nil = nothing can be
}

// Errors of a conversation that ended before its end.
var (
	// ErrLeft is returned when the owner went away: Ctrl-C, or a no.
	ErrLeft = errors.New("left as you wanted: this machine is as it was")
	// ErrNobody is returned when the input ended before the questions did.
	ErrNobody = errors.New("the input ended before the questions did: this machine is as it was; give all answers with --answers FILE")
)

// shown is the question as it may be put on a screen.
func (q Question) shown() Question {
	q.Title, q.Help, q.Options = shown(q.Title), shown(q.Help), slices.Clone(q.Options)
	for i := range q.Options {
		q.Options[i] = shown(q.Options[i])
	}
	return q
}

// shown keeps the lines of a text and replaces what would drive the terminal: names of files, what is written in a model's
// header, and what others on the network say are a stranger's words.
func shown(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' || r == '\t' {
			return r
		}
		return '·'
	}, text)
}

// screen is the width that any terminal has.
const screen = 80

// folded is a remark after its head, broken between words where a terminal would break within them; its further lines
// stand below the first.
func folded(head, text string) string {
	var b strings.Builder
	b.WriteString(head)
	indent := utf8.RuneCountInString(head)
	for i, used := 0, indent; ; i++ {
		word, rest, more := strings.Cut(text, " ")
		switch n := utf8.RuneCountInString(word); {
		case i == 0:
			used += n
		case used+1+n > screen:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			used = indent + n
		default:
			b.WriteByte(' ')
			used += 1 + n
		}
		b.WriteString(word)
		if !more {
			return b.String()
		}
		text = rest
	}
}
