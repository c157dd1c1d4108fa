package web

import "fmt"

// enoughTurns is how many turns must have changed their machine before a page says whether moving caches pays.
const enoughTurns = 5

// worth sums up what moving caches has cost and brought.
type worth struct {
	Warm, Partly, Cold, Used, Wasted, Saves, Stood float64
}

// Worth is of all machines that tell.
func (v *view) Worth() (w worth) {
	for _, r := range v.rows["moves"] {
		w.Warm, w.Partly, w.Cold = w.Warm+r.figure("warm"), w.Partly+r.figure("partly"), w.Cold+r.figure("cold")
		w.Saves, w.Stood = w.Saves+r.figure("saves"), w.Stood+r.figure("stall_seconds")
	}
	for _, r := range v.rows["pairs"] {
		w.Used, w.Wasted = w.Used+r.figure("proved"), w.Wasted+r.figure("failed")
	}
	return w
}

// Verdict is the answer in a word.
func (w worth) Verdict() string {
	switch {
	case w.Warm+w.Partly+w.Cold < enoughTurns:
		return "Too few turns have changed their machine to tell."
	case w.Warm+w.Partly > w.Cold && w.Used > w.Wasted:
		return "It pays."
	case w.Used+w.Wasted == 0:
		return "Nothing has been moved: see Why not, below."
	}
	return "It does not pay so far."
}

// Sentence is what the verdict rests on.
func (w worth) Sentence() string {
	return fmt.Sprintf("Of %.0f turns that changed their machine %.0f began warm, %.0f partly and %.0f cold; %.0f imports were used and %.0f wasted; for %.0f saves engines stood still %s.",
		w.Warm+w.Partly+w.Cold, w.Warm, w.Partly, w.Cold, w.Used, w.Wasted, w.Saves, formatMS(1000*w.Stood))
}
