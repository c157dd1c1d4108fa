package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"viiwork/update/rollout"
)

var start = time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)

// fleet is members with these models each, by name; "-" serves none.
func fleet(models ...string) (all []rollout.Sight) {
	for i, m := range models {
		s := rollout.Sight{ID: fmt.Sprint("id", i), Name: fmt.Sprint("n", i), Version: "v1.0.0", Wire: 2, Online: true, Auto: true}
		if m != "-" {
			s.Models = strings.Split(m, ",")
		}
		all = append(all, s)
	}
	return all
}

// begin is a roll-out to v1.1.0 that the first one leads.
func begin(t testing.TB, seen []rollout.Sight, auto bool) rollout.Roll {
	r, err := rollout.Begin(rollout.Order{ID: "r1", Version: "v1.1.0", Lead: "id0", LeadName: "n0", Auto: auto, Now: start}, seen)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// run lets every member that is told to do so update itself at once, and tells the order.
func run(r rollout.Roll, seen []rollout.Sight) (rollout.Roll, []string, rollout.Step) {
	var order []string
	now := start
	for range 10_000 {
		now = now.Add(10 * time.Second)
		var step rollout.Step
		r, step = r.Next(now, true, seen)
		switch step.Act {
		case rollout.End:
			return r, order, step
		case rollout.Start:
			for i := range seen {
				if seen[i].ID == step.Member {
					order = append(order, seen[i].Name)
					seen[i].Version = r.Version
				}
			}
		}
	}
	return r, order, rollout.Step{}
}

func entry(r rollout.Roll, name string) rollout.Entry {
	for _, e := range r.Members {
		if e.Name == name {
			return e
		}
	}
	return rollout.Entry{}
}

func TestTheLeaderComesLastAndTheOldestLanguageFirst(t *testing.T) {
	seen := fleet("m", "m", "m,k", "k")
	seen[3].Wire = 1
	r, order, _ := run(begin(t, seen, false), seen)
	if got := fmt.Sprint(order); got != "[n3 n2 n1 n0]" || r.Stage != rollout.Ended || r.Canary != "id3" {
		t.Errorf("order %s, %s, canary %s", got, r.Stage, r.Canary)
	}
}

func TestTheOnlyHostOfAModelIsWaitedForAndThenLeft(t *testing.T) {
	seen := fleet("m", "m", "k")
	r := begin(t, seen, false)
	seen[0].Version, seen[1].Version = "v1.1.0", "v1.1.0"
	r, step := r.Next(start, true, seen)
	if step.Act != rollout.Wait || !strings.Contains(r.Why, "n2 is the only ready host of k") {
		t.Fatalf("%+v, %s", step, r.Why)
	}
	seen[0].Models = []string{"m", "k"}
	if _, step := r.Next(start.Add(time.Minute), true, seen); step.Act != rollout.Start || step.Member != "id2" {
		t.Errorf("with another host: %+v", step)
	}
	seen[0].Models, seen[0].Draining = nil, true
	r, step = r.Next(start.Add(time.Hour), true, seen)
	if step.Act != rollout.End || r.Stage != rollout.Ended || !strings.Contains(entry(r, "n2").Why, "only ready host of k") {
		t.Errorf("at the end: %+v, %+v", step, entry(r, "n2"))
	}
}

func TestTheFirstThatGoesBackStopsAll(t *testing.T) {
	for _, late := range []bool{false, true} {
		seen := fleet("m", "m", "m", "m")
		seen[1].Back, seen[1].Bad = 1, "v1.1.0" // once before: not this roll-out's
		r := begin(t, seen, false)
		r, step := r.Next(start, true, seen)
		if step.Member != "id1" {
			t.Fatalf("%+v", step)
		}
		if late { // it was good, and turned bad while the next one is at hand
			seen[1].Version = r.Version
			if r, step = r.Next(start.Add(time.Minute), true, seen); step.Member != "id2" {
				t.Fatalf("%+v", step)
			}
			seen[1].Version = "v1.0.0"
		}
		seen[1].Back, seen[1].BackWhy = 2, "m is not ready"
		r, step = r.Next(start.Add(2*time.Minute), true, seen)
		if step.Act != rollout.End || r.Stage != rollout.Stopped || !strings.Contains(r.Why, "n1 went back from v1.1.0: m is not ready") {
			t.Errorf("%+v, %s, %s", step, r.Stage, r.Why)
		}
		if _, step = r.Next(start.Add(3*time.Minute), true, seen); step.Act != rollout.End {
			t.Errorf("after it: %+v", step)
		}
	}
}

func TestWhatTheCanaryCannotInstallNobodyTries(t *testing.T) {
	seen := fleet("m", "m", "m")
	r := begin(t, seen, false)
	r, _ = r.Next(start, true, seen)
	seen[1].Roll, seen[1].Fault = "r1", "the new version refuses the configuration"
	r, step := r.Next(start.Add(time.Minute), true, seen)
	if step.Act != rollout.End || r.Stage != rollout.Stopped || !strings.Contains(r.Why, "n1, which came first, could not be updated: the new version refuses") {
		t.Errorf("%+v, %s", step, r.Why)
	}
	// A later one's full disk is its own.
	seen = fleet("m", "m", "m")
	r = begin(t, seen, false)
	r, _ = r.Next(start, true, seen)
	seen[1].Version = r.Version
	r, _ = r.Next(start.Add(time.Minute), true, seen)
	seen[2].Roll, seen[2].Fault = "r1", "no space left"
	r, step = r.Next(start.Add(2*time.Minute), true, seen)
	if step.Act != rollout.Start || step.Member != "id0" || entry(r, "n2").State != rollout.Left {
		t.Errorf("%+v, %+v", step, entry(r, "n2"))
	}
}

func TestTheWindowClosesBetweenTwo(t *testing.T) {
	seen := fleet("m", "m", "m")
	r := begin(t, seen, false)
	r, step := r.Next(start, true, seen)
	if again := step; again.Member != "id1" {
		t.Fatalf("%+v", again)
	}
	// It was told and did not hear: its turn has begun, so it is told again.
	if _, step = r.Next(start.Add(time.Second), false, seen); step.Act != rollout.Start {
		t.Errorf("%+v", step)
	}
	seen[1].Version = r.Version
	r, step = r.Next(start.Add(time.Minute), false, seen)
	if step.Act != rollout.Wait || !strings.Contains(step.Why, "window") {
		t.Errorf("closed: %+v", step)
	}
	if _, step = r.Next(start.Add(24*time.Hour), true, seen); step.Act != rollout.Start || step.Member != "id2" {
		t.Errorf("the next night: %+v", step)
	}
}

func TestWhoIsOffIsCaughtUpWith(t *testing.T) {
	seen := fleet("m", "m", "m")
	seen[2].Online = false
	r, order, _ := run(begin(t, seen, false), seen)
	if fmt.Sprint(order) != "[n1 n0]" || entry(r, "n2").State != rollout.Offline || r.Behind(seen) != nil {
		t.Fatalf("%v, %+v", order, entry(r, "n2"))
	}
	seen[2].Online = true
	if fmt.Sprint(r.Behind(seen)) != "[n2]" {
		t.Errorf("behind: %v", r.Behind(seen))
	}
	r, order, _ = run(r.Again(), seen)
	if fmt.Sprint(order) != "[n2]" || r.Stage != rollout.Ended || r.Behind(seen) != nil {
		t.Errorf("%v, %s", order, r.Stage)
	}
}

func TestWhoDoesNotWantToIsLeftWithTheReason(t *testing.T) {
	seen := fleet("m", "m", "m", "m")
	seen[1].Auto, seen[2].Refuses, seen[3].Version = false, "it belongs to dpkg", "v1.2.0"
	r, order, _ := run(begin(t, seen, true), seen)
	if fmt.Sprint(order) != "[n0]" || !strings.Contains(entry(r, "n1").Why, "update.auto") || entry(r, "n2").Why != "it belongs to dpkg" || entry(r, "n3").State != rollout.Done {
		t.Errorf("%v, %+v", order, r.Members)
	}
	seen = fleet("m", "m")
	seen[1].Auto = false
	if _, order, _ = run(begin(t, seen, false), seen); len(order) != 2 {
		t.Errorf("asked for by somebody: %v", order)
	}
}

// TestAPersonsWordEndsIt once the member at hand is done with, and one that has not begun does not begin.
func TestAPersonsWordEndsIt(t *testing.T) {
	seen := fleet("m", "m", "m", "m")
	r, _ := begin(t, seen, false).Next(start, true, seen)
	seen[1].Roll, seen[1].Busy = "r1", true
	r = r.Halt(start.Add(time.Minute), "n3").Halt(start.Add(time.Hour), "n2") // the second changes nothing
	r, step := r.Next(start.Add(2*time.Minute), true, seen)
	if step.Act != rollout.Wait || !strings.Contains(r.Why, "it was stopped at n3 on 2026-03-01 02:01 UTC; n1 is being updated") {
		t.Fatalf("while one is at hand: %+v, %s", step, r.Why)
	}
	seen[1].Busy, seen[1].Version = false, r.Version
	r, step = r.Next(start.Add(3*time.Minute), true, seen)
	if step.Act != rollout.End || r.Stage != rollout.Stopped || r.Why != "it was stopped at n3 on 2026-03-01 02:01 UTC" || entry(r, "n1").State != rollout.Done || entry(r, "n2").State != rollout.Waiting {
		t.Errorf("at its end: %+v, %+v", step, r)
	}
	if seen[0].Online = false; r.Behind(seen) != nil {
		t.Error("it is caught up with what a person has ended")
	}

	seen = fleet("m", "m", "m")
	r, _ = begin(t, seen, false).Next(start, true, seen)
	r, step = r.Halt(start, "n0").Next(start.Add(time.Second), true, seen)
	if step.Act != rollout.End || r.Stage != rollout.Stopped || entry(r, "n1").State != rollout.Waiting {
		t.Errorf("before one has begun: %+v, %+v", step, r)
	}

	seen = fleet("m", "m", "m")
	r, _ = begin(t, seen, false).Next(start, true, seen)
	seen[1].Back, seen[1].Bad, seen[1].BackWhy = 1, r.Version, "m is not ready"
	if r, _ = r.Halt(start, "n0").Next(start.Add(time.Minute), true, seen); !strings.Contains(r.Why, "n1 went back") {
		t.Errorf("the last one went back: %s", r.Why)
	}
	if over := r.Halt(start, "n2"); over.HaltedBy != "n0" {
		t.Error("one that is over is ended again")
	}
}

func TestSomebodyElsesUpdateIsWaitedFor(t *testing.T) {
	seen := fleet("m", "m", "m")
	seen[0].Busy = true
	r, step := begin(t, seen, false).Next(start, true, seen)
	if step.Act != rollout.Wait || !strings.Contains(r.Why, "n0 is being updated by itself") {
		t.Errorf("%+v", step)
	}
}

func TestAMemberThatDoesNotComeBackStopsIt(t *testing.T) {
	seen := fleet("m", "m", "m")
	r, _ := begin(t, seen, false).Next(start, true, seen)
	seen[1].Online = false
	r, step := r.Next(start.Add(40*time.Minute), true, seen)
	if step.Act != rollout.Wait {
		t.Fatalf("%+v", step)
	}
	if r, _ = r.Next(start.Add(50*time.Minute), true, seen); r.Stage != rollout.Stopped || !strings.Contains(r.Why, "n1 was not done") {
		t.Errorf("%s %s", r.Stage, r.Why)
	}
}

func TestOnlyAVersionIsRolledOut(t *testing.T) {
	for _, v := range []string{"", "dev", "1.2.3", "v1.2.3; rm"} {
		if _, err := rollout.Begin(rollout.Order{Version: v, Now: start}, fleet("m")); err == nil {
			t.Errorf("%q is taken", v)
		}
	}
}

func TestThePlanIsTheOrderAndWhoIsLeft(t *testing.T) {
	seen := fleet("m", "m,k", "m", "-")
	seen[2].Refuses, seen[3].Online = "it belongs to dpkg", false
	r, turns := rollout.Plan(begin(t, seen, false), start, seen)
	if fmt.Sprint(turns) != "[n0]" || !strings.Contains(entry(r, "n1").Why, "k") || entry(r, "n2").State != rollout.Left || entry(r, "n3").State != rollout.Offline {
		t.Errorf("%v, %+v", turns, r.Members)
	}
	if seen[0].Version != "v1.0.0" {
		t.Error("planning changed what was seen")
	}
}

// TestAClockThatIsADayOffDelaysNothing: who goes on with a roll-out has another clock than who began it.
func TestAClockThatIsADayOffDelaysNothing(t *testing.T) {
	for name, off := range map[string]time.Duration{"ahead": 24 * time.Hour, "behind": -24 * time.Hour} {
		for _, lead := range []string{"id0", "id2"} {
			if lead == "id0" && off > 0 {
				continue // its own clock goes on while it is away
			}
			seen := fleet("m", "m", "m")
			r, step := begin(t, seen, false).Next(start, true, seen)
			seen[1].Online = false
			now := start.Add(off)
			r = r.LedBy(lead, "n", now)
			if r, step = r.Next(now.Add(time.Minute), true, seen); step.Act != rollout.Wait || r.Stage != rollout.Running {
				t.Errorf("%s, led by %s: %+v", name, lead, step)
			}
			if r, _ = r.Next(now.Add(50*time.Minute), true, seen); r.Stage != rollout.Stopped {
				t.Errorf("%s, led by %s: who is gone is waited for for ever", name, lead)
			}
		}
	}
	seen := fleet("m", "-")
	r, _ := begin(t, seen[:1], false).Next(start, true, seen[:1])
	if r.Held.IsZero() {
		t.Fatal("the only host of a model is not waited for")
	}
	now := start.Add(-24 * time.Hour)
	r = r.LedBy("id1", "n1", now)
	if r, _ = r.Next(now.Add(20*time.Minute), true, seen[:1]); r.Stage != rollout.Ended {
		t.Errorf("the only host of a model is waited for for ever: %s %s", r.Stage, r.Why)
	}
}

// TestWhatAMemberWentBackFromBeforeStopsNothing, also when it was off as the roll-out began.
func TestWhatAMemberWentBackFromBeforeStopsNothing(t *testing.T) {
	seen := fleet("m", "m", "m")
	off := seen[2]
	seen[2].Online = false
	r := begin(t, seen, false)
	off.Version, off.Bad, off.Back, off.BackWhy = "v1.2.0", "v1.1.0", 7, "a bad one, last year"
	seen[2] = off
	if r, order, step := run(r, seen); r.Stage != rollout.Ended || fmt.Sprint(order) != "[n1 n0]" {
		t.Errorf("%s %v %+v", r.Stage, order, step)
	}
}

func TestANoteOfOneMemberTwiceIsNone(t *testing.T) {
	r := begin(t, fleet("m", "m"), false)
	if !r.Sound() {
		t.Error("one that is right is none")
	}
	if r.Members[1].ID = r.Members[0].ID; r.Sound() {
		t.Error("it is taken")
	}
}
