package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Act is what is to be done.
type Act string

const (
	Wait  Act = "wait"  // look again in a while; Why says what for
	Start Act = "start" // tell Member to begin. Telling it again does no harm
	End   Act = "end"   // nothing more
)

// Step is what follows from how the members are.
type Step struct {
	Act    Act
	Member string // id, of a Start
	Why    string
}

// Next looks at the members. It gives the roll-out as it goes on, which must be kept before the step is taken: who takes over
// knows by it whose turn it may be. Open tells whether the window is: outside of it nobody's turn begins.
func (r Roll) Next(now time.Time, open bool, seen []Sight) (Roll, Step) {
	r.Members = slices.Clone(r.Members)
	if r.Stage != Running {
		return r, Step{Act: End, Why: r.Why}
	}
	r.Why = ""
	r.meet(now, seen)
	if why := r.wentBack(now, seen); why != "" {
		return r.stop(why)
	}
	if e, ok := r.atHand(); ok {
		if step := r.follow(now, e, seen); step.Act != "" {
			if !r.Halted.IsZero() {
				return r.wait(r.halt() + "; " + step.Why)
			}
			return r, step
		}
		if r.Stage == Stopped {
			return r, Step{Act: End, Why: r.Why}
		}
	}
	waiting := r.sort(now, seen)
	switch {
	case !r.Halted.IsZero():
		return r.stop(r.halt())
	case len(waiting) == 0:
		r.Stage, r.Held = Ended, time.Time{}
		return r, Step{Act: End}
	case !open:
		r.Held = time.Time{}
		return r.wait("the window of update.window is closed")
	}
	return r.choose(now, waiting, seen)
}

// wentBack finds a member that has left the version, whenever that was.
func (r *Roll) wentBack(now time.Time, seen []Sight) (why string) {
	for _, s := range seen {
		e := r.Members[r.index(s.ID)]
		if s.Bad != r.Version || s.Back == e.Back || e.State != Updating && e.State != Done {
			continue
		}
		why = fmt.Sprintf("%s went back from %s: %s", s.Name, r.Version, cmp.Or(s.BackWhy, "it does not say why"))
		r.put(now, s.ID, Left, why)
	}
	return why
}

// follow looks after the member at hand. No act means that its turn is over.
func (r *Roll) follow(now time.Time, e Entry, seen []Sight) Step {
	s, _ := find(seen, e.ID)
	took := now.Sub(e.Since)
	switch {
	case s.Online && !s.Busy && !Older(s.Version, r.Version):
		r.put(now, e.ID, Done, "")
		return Step{}
	case s.Online && !s.Busy && s.Roll == r.ID && s.Fault != "":
		return r.without(now, e, s.Fault)
	case took > stepWithin:
		r.put(now, e.ID, Left, "its turn took too long")
		r.Stage, r.Why = Stopped, fmt.Sprintf("%s was not done with its update within %s: look at that machine", e.Name, stepWithin)
		return Step{}
	case !s.Online:
		return r.pause(e.Name + " is away: it restarts, or cannot be reached")
	case s.Busy:
		return r.pause(e.Name + " is being updated")
	case !r.Halted.IsZero(): // it was told to begin, and has not
		r.put(now, e.ID, Waiting, "")
		return Step{}
	case took > beginWithin:
		return r.without(now, e, cmp.Or(s.Refuses, "it did not begin"))
	}
	return Step{Act: Start, Member: e.ID}
}

// without goes on without a member whose update came to nothing before it switched. If it is the canary, so would the others'.
func (r *Roll) without(now time.Time, e Entry, why string) Step {
	r.put(now, e.ID, Left, why)
	if e.ID == r.Canary {
		r.Stage, r.Why = Stopped, fmt.Sprintf("%s, which came first, could not be updated: %s", e.Name, why)
	}
	return Step{}
}

// sort puts everyone else where it belongs and gives those whose turn may come.
func (r *Roll) sort(now time.Time, seen []Sight) (waiting []Sight) {
	for _, e := range slices.Clone(r.Members) {
		s, known := find(seen, e.ID)
		if s.Online && (e.State == Waiting || e.State == Offline) {
			r.Members[r.index(e.ID)].Back = s.Back // what it went back from before its turn is none of this
		}
		switch {
		case e.State == Done || e.State == Left:
		case !known || !s.Online:
			r.put(now, e.ID, Offline, "")
		case !Older(s.Version, r.Version) && !s.Busy:
			r.put(now, e.ID, Done, "")
		case r.Auto && !s.Auto:
			r.put(now, e.ID, Left, "its owner wants to be asked (update.auto)")
		case s.Refuses != "":
			r.put(now, e.ID, Left, s.Refuses)
		default:
			r.put(now, e.ID, Waiting, "")
			waiting = append(waiting, s)
		}
	}
	return waiting
}

// choose begins the next one's turn, if anybody may go.
func (r Roll) choose(now time.Time, waiting, seen []Sight) (Roll, Step) {
	var why string
	if busy := slices.IndexFunc(seen, func(s Sight) bool { return s.Online && s.Busy }); busy >= 0 {
		why = seen[busy].Name + " is being updated by itself"
	} else {
		slices.SortStableFunc(waiting, r.compare)
		for _, s := range waiting {
			model := lastOf(s, seen)
			if model == "" {
				return r.begin(now, s)
			}
			why = fmt.Sprintf("%s is the only ready host of %s", s.Name, model)
			r.put(now, s.ID, Waiting, why)
		}
	}
	if r.Held.IsZero() {
		r.Held = now
	}
	if now.Sub(r.Held) < waitWithin {
		return r.wait(why)
	}
	for _, s := range waiting {
		if model := lastOf(s, seen); model != "" {
			why = fmt.Sprintf("it is the only ready host of %s: give the model another host, or run 'viiwork update' there when nobody needs it", model)
		}
		r.put(now, s.ID, Left, why)
	}
	r.Stage, r.Held = Ended, time.Time{}
	return r, Step{Act: End}
}

// begin is a member's turn.
func (r Roll) begin(now time.Time, s Sight) (Roll, Step) {
	r.put(now, s.ID, Updating, "")
	e := &r.Members[r.index(s.ID)]
	e.From, e.Back, r.Held = s.Version, s.Back, time.Time{}
	if r.Canary == "" {
		r.Canary = s.ID
	}
	return r, Step{Act: Start, Member: s.ID}
}

// compare is the order of turns: who leads is the last; those who speak the oldest language come first; then who serves most,
// so that a version that cannot is found out by its canary; then by name.
func (r *Roll) compare(a, b Sight) int {
	return cmp.Or(
		toInt(a.ID == r.Lead)-toInt(b.ID == r.Lead),
		cmp.Compare(a.Wire, b.Wire),
		cmp.Compare(len(b.Models), len(a.Models)),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.ID, b.ID),
	)
}

// lastOf names a model that nobody but s could serve, "" if there is none.
func lastOf(s Sight, seen []Sight) string {
	if s.Draining {
		return "" // it serves nobody
	}
	for _, model := range s.Models {
		if !slices.ContainsFunc(seen, func(o Sight) bool {
			return o.ID != s.ID && o.Online && !o.Draining && !o.Busy && slices.Contains(o.Models, model)
		}) {
			return model
		}
	}
	return ""
}

func (r Roll) stop(why string) (Roll, Step) {
	if e, ok := r.atHand(); ok { // another one went back while it is at hand: it finishes by itself
		r.put(e.Since, e.ID, Left, "it was at hand when the roll-out stopped")
	}
	r.Stage, r.Why, r.Held = Stopped, why, time.Time{}
	return r, Step{Act: End, Why: why}
}

func (r Roll) wait(why string) (Roll, Step) { return r, r.pause(why) }

func (r *Roll) pause(why string) Step {
	r.Why = why
	return Step{Act: Wait, Why: why}
}

func find(seen []Sight, id string) (Sight, bool) {
	for _, s := range seen {
		if s.ID == id {
			return s, true
		}
	}
	return Sight{}, false
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
