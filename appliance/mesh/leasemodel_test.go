package mesh_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/engine"
)

// key is all of the world that what may happen later depends on. Two worlds with one key have one future.
func (w *leaseWorld) key() string {
	var b strings.Builder
	bit := func(yes bool) {
		if yes {
			b.WriteByte('1')
		} else {
			b.WriteByte('0')
		}
	}
	granted := map[*engine.Seat]bool{}
	seats, _, _ := w.book.Holds()
	for _, s := range seats {
		granted[s.seat] = true
	}
	for _, j := range w.journeys {
		fmt.Fprintf(&b, "|%d%d", j.entryAt, j.handler)
		for _, yes := range []bool{j.ask, j.answer, j.forward, j.giveBack, j.closeAsk, j.hangUp, j.own, j.handlerEnds} {
			bit(yes)
		}
		if j.place != nil {
			t := j.place.(*ticket)
			fmt.Fprintf(&b, "p%d%s", t.line.Ahead(t.w), seatName(t.w.Seat))
		}
		if j.own && j.was != nil && granted[j.was.seat] && !j.was.back {
			fmt.Fprintf(&b, "g%s%d", seatName(j.was.seat), w.now.Sub(j.granted)/time.Second)
		}
		if j.runs != nil {
			fmt.Fprintf(&b, "r%s", seatName(j.runs.seat))
		}
	}
	for e := range 2 {
		if at, dead := w.heardAt[e]; dead {
			fmt.Fprintf(&b, "!%d:%d", e, min(w.now.Sub(at), mesh.LostAfter)/time.Second)
		}
	}
	fmt.Fprintf(&b, "/%d%d%s", w.deaths, w.restarts, w.loft.latest)
	return b.String()
}

func seatName(s *engine.Seat) string {
	if s == nil {
		return ""
	}
	return fmt.Sprint(s.Backend, s.N)
}

// wrong tells what does not hold in this state: one holder a seat, and each seat that is not free has one; nobody waits
// while a seat he accepts is free (the loft looks at each step).
func (w *leaseWorld) wrong() string {
	if len(w.saw.said) > 0 {
		return w.saw.said[0]
	}
	holders := map[*engine.Seat]string{}
	add := func(s *engine.Seat, who string) string {
		if other, taken := holders[s]; taken {
			return fmt.Sprintf("seat %s is held %s and %s", seatName(s), other, who)
		}
		holders[s] = who
		return ""
	}
	var found string
	note := func(s string) {
		if found == "" {
			found = s
		}
	}
	seats, places, _ := w.book.Holds()
	for _, s := range seats {
		note(add(s.seat, "by a lease"))
	}
	stand := 0
	for _, j := range w.journeys {
		if at, dead := w.heardAt[j.entry]; j.runs != nil && dead && w.now.Sub(at) >= mesh.LostAfter {
			note(fmt.Sprintf("a forward of entry %s runs, which is lost", entryName(j.entry)))
		}
		if j.runs != nil {
			note(add(j.runs.seat, "by a forward"))
		}
		if j.handler == handlerStands && !j.handlerEnds {
			stand++
			if s := j.place.(*ticket).w.Seat; s != nil {
				note(add(s, "by a place"))
			}
		}
	}
	if stand != len(places) {
		note(fmt.Sprintf("%d stand in the line, the book has %d", stand, len(places)))
	}
	if len(holders) != len(w.loft.held) {
		note(fmt.Sprintf("%d seats are not free, and %d are held by somebody", len(w.loft.held), len(holders)))
	}
	return found
}

// settle lets all entries die, and the owner do what it does by itself: then nothing may be left.
func (w *leaseWorld) settle() string {
	w.reborn, w.restarts = false, 0
	for e := range 2 {
		if !w.died[e] {
			w.died[e], w.heardAt[e] = true, w.now
		}
	}
	for range 3 {
		for _, j := range w.journeys {
			for _, s := range []struct {
				what string
				when bool
			}{
				{"join", j.handler == handlerEntered},
				{"look", j.handler == handlerStands && (isDoneJourney(j) || j.handlerEnds)},
				{"finish", j.runs != nil},
			} {
				if s.when {
					w.do(step{s.what, w.index(j)})
				}
			}
		}
		w.pass(2 * time.Second)
	}
	w.pass(mesh.LostAfter)
	_, _, entries := w.book.Holds()
	if held, waiting := w.loft.state(); held != 0 || waiting != 0 || entries != 0 {
		return fmt.Sprintf("at the end %d seats are not free, %d wait and %d entries are known", held, waiting, entries)
	}
	return w.wrong()
}

func (w *leaseWorld) index(j *journey) int {
	for i, other := range w.journeys {
		if other == j {
			return i
		}
	}
	return -1
}

// path is how a state was reached: the steps are run again from the start, since a line cannot be copied.
type path struct {
	before *path
	step   step
}

func (p *path) world(c leaseCase) *leaseWorld {
	var steps []step
	for ; p != nil && p.before != nil; p = p.before {
		steps = append(steps, p.step)
	}
	w := newLeaseWorld(c)
	for i := len(steps) - 1; i >= 0; i-- {
		w.do(steps[i])
	}
	return w
}

func (p *path) String() string {
	if p == nil || p.before == nil {
		return ""
	}
	return fmt.Sprintf("%s\n\t%s %d", p.before, p.step.what, p.step.n)
}

// explore visits every state that c can come to, by every order of steps. It returns the first that is wrong.
func explore(c leaseCase) (states int, fault string) {
	start := &path{}
	seen := map[string]bool{start.world(c).key(): true}
	for todo := []*path{start}; len(todo) > 0; todo = todo[1:] {
		at := todo[0]
		w := at.world(c)
		steps := w.steps()
		if wrong := w.settle(); wrong != "" {
			return len(seen), fmt.Sprintf("%s, once all is left to itself after%s", wrong, at)
		}
		for _, s := range steps {
			next := &path{at, s}
			w := next.world(c)
			if wrong := w.wrong(); wrong != "" {
				return len(seen), fmt.Sprintf("%s, after%s", wrong, next)
			}
			if key := w.key(); !seen[key] {
				seen[key] = true
				todo = append(todo, next)
			}
		}
	}
	return len(seen), ""
}

var (
	alone = leaseAsk{entry: 0}
	other = leaseAsk{entry: 1}
	onA   = leaseAsk{entry: 0, accepts: []string{"a"}}
)

var leaseCases = []leaseCase{
	{name: "one seat, an entry dies and comes back", seats: 1, backends: []string{"a"}, asks: []leaseAsk{alone, other}, deaths: 1, reborn: true},
	{name: "one seat, the owner restarts", seats: 1, backends: []string{"a"}, asks: []leaseAsk{alone, other}, restarts: 1, fragile: true},
	{name: "one seat, three asks", seats: 1, backends: []string{"a"}, asks: []leaseAsk{alone, alone, other}, reliable: true},
	{name: "two backends, an ask for one, an entry dies", seats: 1, backends: []string{"a", "b"}, asks: []leaseAsk{onA, other}, deaths: 1, reliable: true},
}

// deepCases take some minutes.
var deepCases = []leaseCase{
	{name: "one seat, both entries die and come back", seats: 1, backends: []string{"a"}, asks: []leaseAsk{alone, other}, deaths: 2, reborn: true},
	{name: "one seat, an entry dies, the owner restarts", seats: 1, backends: []string{"a"}, asks: []leaseAsk{alone, other}, deaths: 1, restarts: 1},
	{name: "two seats, three asks", seats: 2, backends: []string{"a"}, asks: []leaseAsk{alone, other, other}},
	{name: "two backends, three asks, one for one of them", seats: 1, backends: []string{"a", "b"}, asks: []leaseAsk{onA, alone, other}, reliable: true},
	{name: "two backends, an ask for one, an entry dies", seats: 1, backends: []string{"a", "b"}, asks: []leaseAsk{onA, other}, deaths: 1, reborn: true},
}

// TestEveryOrderOfEventsKeepsTheLeases goes through all that can happen in small worlds; in more of them with
// VIIWORK_TEST_DEEP=1.
func TestEveryOrderOfEventsKeepsTheLeases(t *testing.T) {
	cases := leaseCases
	if os.Getenv("VIIWORK_TEST_DEEP") != "" {
		cases = append(slices.Clone(cases), deepCases...)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			states, fault := explore(c)
			if fault != "" {
				t.Fatal(fault)
			}
			t.Logf("%d states, all well", states)
		})
	}
}

// TestFaultsOfTheProtocolAreFound holds the exploration itself against owners that do it wrong.
func TestFaultsOfTheProtocolAreFound(t *testing.T) {
	for _, fault := range []string{
		"a seat granted to who has cancelled is kept", "what has lapsed is kept", "what a lost entry waits for and runs is kept",
		"a place taken after the loss is kept", "a lapsed lease is redeemed", "a lapsed lease is given back",
	} {
		t.Run(fault, func(t *testing.T) {
			c := leaseCases[0]
			c.fault = fault
			states, found := explore(c)
			if found == "" {
				t.Fatalf("not found in %d states", states)
			}
			t.Logf("after %d states: %s", states, found)
		})
	}
}
