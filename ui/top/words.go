package top

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// unknown stands for what the node does not tell.
const unknown = "–"

// longest is how many characters of a name or message are looked at: marks that take no room on the screen could make
// one of any length fit.
const longest = 512

// clean takes out of a text what a terminal would act on: it may come from another machine, a file or a client.
func clean(text string) string {
	n := 0
	return strings.Map(func(r rune) rune {
		n++
		switch {
		case n > longest:
			return -1
		case unicode.IsPrint(r):
			return r
		case r == '\t' || r == '\n':
			return ' '
		}
		return '·'
	}, text)
}

// width is how many columns of the screen a text takes.
func width(text string) int { return ansi.StringWidth(text) }

// fit cuts a text to so many columns, or fills them; one that is cut ends with "…".
func fit(text string, columns int, right bool) string {
	text = ansi.Truncate(text, max(0, columns), "…")
	gap := strings.Repeat(" ", max(0, columns-width(text)))
	if right {
		return gap + text
	}
	return text + gap
}

func orUnknown(text string) string {
	if text == "" {
		return unknown
	}
	return text
}

func count(n *int) string {
	if n == nil {
		return unknown
	}
	return fmt.Sprint(*n)
}

func share(part *float64) string {
	if part == nil {
		return unknown
	}
	return fmt.Sprintf("%.0f%%", *part*100)
}

func figure(v *float64, unit string) string {
	if v == nil {
		return unknown
	}
	return fmt.Sprintf("%.0f%s", *v, unit)
}

// span is a length of time in two or three figures.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return unknown
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

func millis(ms *float64) string {
	if ms == nil {
		return unknown
	}
	return span(time.Duration(*ms * float64(time.Millisecond)))
}

// of is "4/6".
func of(part, whole *int) string {
	if part == nil || whole == nil {
		return unknown
	}
	return fmt.Sprintf("%d/%d", *part, *whole)
}

// number is a figure to sort by; what is not known comes last whichever way.
func number[T int | int64 | float64](v *T) float64 {
	if v == nil {
		return math.NaN()
	}
	return float64(*v)
}

// things words a number of things.
func things(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
