//go:build linux

package faults_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"viiwork/engine/enginetest"
)

// verdict is what became of all requests of a load, by clients' words and engines' books.
type verdict struct {
	answered, refused int
	broken            int // that ran at or came in by the node at fault
	stray             int // broken ones that did not
	lost, doubled     int
	forwarded         int           // ran elsewhere than they came in
	again             int           // begun at a node under fault, given up before the first byte of an answer, and run elsewhere
	slowest, longest  time.Duration // until the first byte of an answer; until its end
	examples          []string
}

// under tells whether requests that come in at one machine and run at another are under a fault.
type under func(entry, at int) bool

// place is a run and the machine it was at.
type place struct {
	run
	at int
}

// judge lays side by side what clients saw and what the engines ran, by machine.
func judge(all []asked, books [][]run, at under) (v verdict) {
	ran := map[string][]place{} // by mark
	for i, runs := range books {
		for _, r := range runs {
			ran[r.Mark] = append(ran[r.Mark], place{r, i})
		}
	}
	for _, a := range all {
		excused := func(i int) bool {
			return slices.ContainsFunc(a.entries, func(e int) bool { return at(e, i) })
		}
		places := ran[a.mark]
		slices.SortFunc(places, func(x, y place) int { return x.Begun.Compare(y.Begun) })
		v.count(a, slices.ContainsFunc(a.entries, excused) || slices.ContainsFunc(places, func(p place) bool { return excused(p.at) }))
		v.weigh(a, places, excused)
	}
	return v
}

// silence is how long a node that was given a request must have been without a word, a beat even, before its entry may
// give the request to another. It says nothing of what the node does meanwhile: one that has no processor for so long is
// to others as if it were frozen.
const silence = 3 * time.Second

// weigh looks how often a request ran, its places in the order of their beginnings.
func (v *verdict) weigh(a asked, places []place, excused func(int) bool) {
	if len(places) > 1 {
		v.again++
	}
	if slices.ContainsFunc(places, func(p place) bool { return !slices.Contains(a.entries, p.at) }) {
		v.forwarded++
	}
	served := slices.DeleteFunc(slices.Clone(places), func(p place) bool { return p.Fate != enginetest.Served })
	if a.ending == answered && len(served) == 0 {
		v.lost++
		v.say("%s was answered and no engine ran it", a.mark)
	}
	for i := 1; i < len(served); i++ {
		first, second := served[i-1], served[i]
		if gap := second.Begun.Sub(first.Begun); gap < silence && !excused(first.at) && !excused(second.at) {
			v.doubled++
			v.say("%s came in at %v and ran to its end at %d, and %s later at %d", a.mark, a.entries, first.at, gap, second.at)
		}
	}
}

func (v *verdict) count(a asked, excused bool) {
	v.refused += a.refusals
	v.slowest, v.longest = max(v.slowest, a.first), max(v.longest, a.took)
	switch {
	case a.ending == answered:
		v.answered++
		return
	case a.ending == refusedThen && a.refusals > 0 && a.retryAfter > 0:
		return // counted already; the load ended before its next try
	case a.ending == refusedThen:
		v.refused++
	case a.ending == broken && excused:
		v.broken++
		return
	case a.ending == broken:
		v.stray++
	default:
		v.lost++
	}
	v.say("%s came in at %v: status %d, %s", a.mark, a.entries, a.status, strings.TrimSpace(a.why))
}

// say keeps the first few.
func (v *verdict) say(format string, args ...any) {
	if len(v.examples) < 12 {
		v.examples = append(v.examples, fmt.Sprintf(format, args...))
	}
}

func (v verdict) String() string {
	return fmt.Sprintf("%d answered, %d of all forwarded, %d refused, %d broken at the node at fault and %d elsewhere, %d lost, %d doubled; %d begun twice; at most %.1f s to the first byte, %.1f s to the last",
		v.answered, v.forwarded, v.refused, v.broken, v.stray, v.lost, v.doubled, v.again, v.slowest.Seconds(), v.longest.Seconds())
}
