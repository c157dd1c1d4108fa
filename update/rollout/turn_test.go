package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"viiwork/update/rollout"
)

// atHand is a roll-out whose canary, n1, has just been told to begin.
func atHand(t *testing.T, seen []rollout.Sight) rollout.Roll {
	t.Helper()
	r, step := begin(t, seen, false).Next(start, true, seen)
	if step.Act != rollout.Start || step.Member != "id1" {
		t.Fatalf("%+v", step)
	}
	return r
}

// TestATurnIsOverWhenTheTrialIs, and not when the new version is first seen: it may be on trial, or away.
func TestATurnIsOverWhenTheTrialIs(t *testing.T) {
	seen := fleet("m", "m", "m")
	r := atHand(t, seen)
	for _, s := range []struct {
		busy, online bool
		why          string
	}{{true, true, "n1 is being updated"}, {false, false, "n1 is away"}, {true, true, "n1 is being updated"}} {
		seen[1].Version, seen[1].Busy, seen[1].Online = r.Version, s.busy, s.online
		next, step := r.Next(start.Add(20*time.Minute), true, seen)
		if step.Act != rollout.Wait || !strings.Contains(next.Why, s.why) || entry(next, "n1").State != rollout.Updating {
			t.Errorf("%+v: %+v, %+v", s, step, entry(next, "n1"))
		}
		r = next
	}
	seen[1].Busy = false
	if r, step := r.Next(start.Add(21*time.Minute), true, seen); step.Member != "id2" || r.Why != "" {
		t.Errorf("after the trial: %+v, %q", step, r.Why)
	}
}

// TestWhoDoesNotBeginIsNotWaitedForLong: who was told again and again, and only says why of an earlier roll-out.
func TestWhoDoesNotBeginIsNotWaitedForLong(t *testing.T) {
	seen := fleet("m", "m", "m")
	r := atHand(t, seen)
	seen[1].Roll, seen[1].Fault = "r0", "no space left"
	r, step := r.Next(start.Add(time.Minute), true, seen)
	if step.Act != rollout.Start || step.Member != "id1" {
		t.Errorf("what was wrong in another roll-out: %+v", step)
	}
	if r, step = r.Next(start.Add(6*time.Minute), true, seen); step.Act != rollout.End || !strings.Contains(r.Why, "n1, which came first, could not be updated: it did not begin") {
		t.Errorf("%+v, %s", step, r.Why)
	}

	seen = fleet("m", "m", "m")
	r = atHand(t, seen)
	seen[1].Roll, seen[1].Fault, seen[1].Busy = "r1", "no space left", true
	if _, step = r.Next(start.Add(time.Minute), true, seen); step.Act != rollout.Wait {
		t.Errorf("one that is at it again: %+v", step)
	}
}

// TestOnlyWhatThisRollOutBroughtAndWasTakenBackStopsIt.
func TestOnlyWhatThisRollOutBroughtAndWasTakenBackStopsIt(t *testing.T) {
	seen := fleet("m", "m", "m")
	r := atHand(t, seen)
	seen[1].Back, seen[1].Bad = 1, "v0.9.0"
	seen[2].Back, seen[2].Bad = 1, "v1.1.0" // its owner tried it by hand
	r, step := r.Next(start.Add(time.Minute), true, seen)
	if step.Act != rollout.Start || r.Stage != rollout.Running {
		t.Fatalf("%+v, %s", step, r.Why)
	}
	seen[1].Version, seen[2].Version = r.Version, "v1.0.1"
	r, step = r.Next(start.Add(2*time.Minute), true, seen)
	if step.Member != "id2" || entry(r, "n2").From != "v1.0.1" {
		t.Fatalf("%+v, %+v", step, entry(r, "n2"))
	}
	if r, step = r.Next(start.Add(3*time.Minute), true, seen); step.Member != "id2" {
		t.Errorf("what was before its turn: %+v, %s", step, r.Why)
	}
	seen[1].Back, seen[1].Bad, seen[1].Version = 2, "v1.1.0", "v1.0.0"
	r, _ = r.Next(start.Add(4*time.Minute), true, seen)
	for name, why := range map[string]string{"n1": "n1 went back from v1.1.0", "n2": "at hand when the roll-out stopped"} {
		if e := entry(r, name); r.Stage != rollout.Stopped || e.State != rollout.Left || !strings.Contains(e.Why, why) {
			t.Errorf("%s: %s, %+v", name, r.Stage, e)
		}
	}
	if !r.Sound() {
		t.Error("nobody would believe its note")
	}
}

// TestItEndsWithItsLastMember, whatever the window.
func TestItEndsWithItsLastMember(t *testing.T) {
	seen := fleet("m", "m", "m")
	r := atHand(t, seen)
	seen[0].Version, seen[1].Version, seen[2].Version = r.Version, r.Version, r.Version
	r, step := r.Next(start.Add(time.Minute), false, seen)
	if step.Act != rollout.End || r.Stage != rollout.Ended {
		t.Fatalf("%+v, %s", step, r.Stage)
	}
	seen[1].Online = false
	if r, _ = r.Again().Next(start.Add(time.Hour), true, seen); entry(r, "n1").State != rollout.Done {
		t.Errorf("who was done and is off: %+v", entry(r, "n1"))
	}
}

// TestPatienceIsCountedAnew with each reason to wait: neither a closed window nor an earlier wait takes of it.
func TestPatienceIsCountedAnew(t *testing.T) {
	seen := fleet("m", "m", "k")
	r := begin(t, seen, false)
	seen[0].Version, seen[1].Version = r.Version, r.Version
	r, _ = r.Next(start, true, seen)
	r, _ = r.Next(start.Add(10*time.Minute), false, seen)
	if _, step := r.Next(start.Add(24*time.Hour), true, seen); step.Act != rollout.Wait {
		t.Errorf("the next night: %+v", step)
	}

	seen = fleet("m", "m", "x")
	r = begin(t, seen, false)
	seen[1].Version, r.Canary = r.Version, "id1"
	seen[0].Models = []string{"m", "y"}
	r, step := r.Next(start, true, seen)
	if step.Act != rollout.Wait {
		t.Fatalf("two only hosts: %+v", step)
	}
	seen[0].Models = []string{"m", "x", "y"}
	if r, step = r.Next(start.Add(10*time.Minute), true, seen); step.Member != "id2" {
		t.Fatalf("%+v", step)
	}
	seen[2].Roll, seen[2].Fault = "r1", "no space left"
	r, _ = r.Next(start.Add(11*time.Minute), true, seen)
	if r, step = r.Next(start.Add(20*time.Minute), true, seen); step.Act != rollout.Wait {
		t.Errorf("another one waits, and not long: %+v, %s", step, r.Stage)
	}
}

func TestWhoServesNobodyKeepsNobodyWaiting(t *testing.T) {
	seen := fleet("m", "m", "k")
	seen[0].Version, seen[1].Version, seen[2].Draining = "v1.1.0", "v1.1.0", true
	if _, step := begin(t, seen, false).Next(start, true, seen); step.Member != "id2" {
		t.Errorf("a draining only host: %+v", step)
	}
}

// TestWhoUpdatesByItselfIsDoneAfterItsTrial, and nobody's turn begins before.
func TestWhoUpdatesByItselfIsDoneAfterItsTrial(t *testing.T) {
	seen := fleet("m", "m", "m")
	seen[2].Version, seen[2].Busy = "v1.1.0", true
	r, step := begin(t, seen, false).Next(start, true, seen)
	if step.Act != rollout.Wait || entry(r, "n2").State != rollout.Waiting {
		t.Errorf("%+v, %+v", step, entry(r, "n2"))
	}
	seen[2].Online = false // its word is old
	if _, step = r.Next(start.Add(time.Minute), true, seen); step.Member != "id1" {
		t.Errorf("it is gone: %+v", step)
	}
}

func TestTheNameDecidesAmongEquals(t *testing.T) {
	seen := fleet("m", "m", "m", "m")
	for i, name := range []string{"leads", "c", "a", "b"} {
		seen[i].Name = name
	}
	if _, order, _ := run(begin(t, seen, false), seen); fmt.Sprint(order) != "[a b c leads]" {
		t.Error(order)
	}
}

// TestWhoIsBehind is only asked of one that ended, and counts those who came later.
func TestWhoIsBehind(t *testing.T) {
	seen := fleet("m", "m", "m")
	seen[2].Online = false
	r, _, _ := run(begin(t, seen, false), seen)
	seen[2].Online = true
	late := append(seen, rollout.Sight{ID: "id9", Name: "n9", Version: "v1.0.0", Online: true})
	if got := fmt.Sprint(r.Behind(late)); got != "[n2 n9]" {
		t.Errorf("behind: %s", got)
	}
	r.Stage = rollout.Stopped
	if r.Behind(late) != nil {
		t.Error("what has stopped is caught up with")
	}
}

func TestANoteThatNobodyWroteIsNotBelieved(t *testing.T) {
	good := rollout.Roll{ID: "r1", Version: "v1.1.0", Stage: rollout.Running, Members: []rollout.Entry{{ID: "a", State: rollout.Updating}, {ID: "b"}}}
	if !good.Sound() {
		t.Fatal("a good one is refused")
	}
	for name, spoil := range map[string]func(*rollout.Roll){
		"no id":           func(r *rollout.Roll) { r.ID = "" },
		"no version":      func(r *rollout.Roll) { r.Version = "1.1" },
		"another stage":   func(r *rollout.Roll) { r.Stage = "begun" },
		"two are at hand": func(r *rollout.Roll) { r.Members[1].State = rollout.Updating },
	} {
		r := good
		r.Members = append([]rollout.Entry{}, good.Members...)
		if spoil(&r); r.Sound() {
			t.Error(name)
		}
	}
}
