package appliance_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/status"
	"viiwork/update/rollout"
)

// TestWhoLeadsMayBeStartedAnewAtEachStep: it goes on where it was.
func TestWhoLeadsMayBeStartedAnewAtEachStep(t *testing.T) {
	t.Parallel()
	fl := newFleet(t, 3, func(_ int, m *mate) { m.trial, m.tried = longWait, make(chan struct{}) })
	lead := fl.machines[0]
	lead.lead("v1.1.0")
	seen, all := map[string]bool{}, false
	for !all {
		holds(t, "the next step, or the end", func() bool {
			step, r := fl.step()
			if seen[step] {
				fl.proven(r)
			}
			all = fmt.Sprint(fl.versions()) == "[v1.1.0 v1.1.0 v1.1.0]"
			if all || step == "" || seen[step] || r.Stage != "running" || strings.Contains(step, "n00 updating") {
				return all
			}
			seen[step] = true
			return true
		})
		if !all {
			lead.again()
		}
	}
	if order, most := fl.went(); fmt.Sprint(order) != "[n01 n02 n00]" || most != 1 || len(seen) < 2 {
		t.Errorf("order %v, %d at one time; started anew at %v", order, most, seen)
	}
}

// step is how far each machine is, in words, as one says that does not lead.
func (fl *fleet) step() (step string, r status.Rollout) {
	if r = fl.machines[1].rollout(); r.Stage == "" {
		r = fl.machines[2].rollout()
	}
	for _, e := range r.Members {
		step += e.Name + " " + e.State + " "
	}
	return step, r
}

// proven ends the trial of who is at it by r: so each step lasts until it has been seen, however late that is.
func (fl *fleet) proven(r status.Rollout) {
	for i, e := range r.Members {
		if e.State == "updating" {
			select {
			case fl.machines[i].tried <- struct{}{}:
			default: // it is not at its trial yet, or not any more
			}
		}
	}
}

// TestWhoLeadsMayBeKilledAtEachStep, as by a power cut: it goes on where it was, also in its own turn.
func TestWhoLeadsMayBeKilledAtEachStep(t *testing.T) {
	t.Parallel()
	fl := newFleet(t, 3, func(i int, m *mate) { m.apart, m.trial, m.tried = i == 0, longWait, make(chan struct{}) })
	lead := fl.machines[0]
	lead.lead("v1.1.0")
	killed, all := map[string]bool{}, false
	for !all {
		holds(t, "the next step, or that all are updated and it is known", func() bool {
			step, r := fl.step()
			if killed[step] {
				fl.proven(r)
			}
			all = fmt.Sprint(fl.versions()) == "[v1.1.0 v1.1.0 v1.1.0]" && r.Stage == "ended"
			if all || step == "" || killed[step] || r.Stage != "running" {
				return all
			}
			killed[step] = true
			return true
		})
		if !all {
			lead.kill()
			lead.start()
		}
	}
	order, most := fl.went()
	if fmt.Sprint(order) != "[n01 n02]" || most != 1 || len(killed) < 3 { // who leads is last, in a process of its own
		t.Errorf("order %v, %d at one time; killed at %v", order, most, killed)
	}
	t.Logf("killed at %d steps: %v", len(killed), killed)
}

// left is the note of a node that led and will not come back.
func left(t *testing.T, version string) []byte {
	gone := rollout.Sight{ID: "0123456789abcdef", Name: "gone", Version: version, Online: true}
	r, err := rollout.Begin(rollout.Order{ID: "r1", Version: version, Lead: gone.ID, LeadName: gone.Name, Now: time.Now()}, []rollout.Sight{gone})
	if err != nil {
		t.Fatal(err)
	}
	note, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return note
}

// TestWhatNobodyLeadsAnyMoreGoesOn where a person says so, and from there.
func TestWhatNobodyLeadsAnyMoreGoesOn(t *testing.T) {
	t.Parallel()
	fl := newFleet(t, 3, func(i int, m *mate) { m.note = left(t, "v1.1.0") })
	holds(t, "it is said that nobody leads", func() bool {
		w := fl.machines[1].warning("rollout_alone")
		return w != nil && strings.Contains(w.Text, "gone, which led it, is not there")
	})
	if order, _ := fl.went(); len(order) > 0 {
		t.Fatalf("%v go by themselves", order)
	}
	if _, code := fl.machines[2].mesh(status.RolloutRequest{Version: "v1.2.0"}); code != http.StatusConflict {
		t.Errorf("another version is taken, and not led: %d", code)
	}
	if r, code := fl.machines[2].mesh(status.RolloutRequest{Plan: true}); code != http.StatusOK || r.Version != "v1.1.0" || len(r.Order) != 3 {
		t.Errorf("the plan is not to go on: %d, %+v", code, r)
	}
	if r, code := fl.machines[2].mesh(status.RolloutRequest{}); code != http.StatusAccepted || r.Version != "v1.1.0" {
		t.Errorf("it does not go on: %d, %+v", code, r)
	}
	holds(t, "all are updated", func() bool { return fmt.Sprint(fl.versions()) == "[v1.1.0 v1.1.0 v1.1.0]" })
	holds(t, "it is over", func() bool { r := fl.machines[0].rollout(); return r.Stage == "ended" && r.Lead == "n02" })
}

// ended waits until a machine says that a person has ended the roll-out, and where.
func (m *mate) ended(at string) {
	m.t.Helper()
	holds(m.t, m.name+" says who ended it", func() bool {
		r, w := m.rollout(), m.warning("rollout_stopped")
		now := r.StoppedAt.After(m.fleet.begun) && r.StoppedAt.Before(time.Now())
		return r.Stage == "stopped" && r.StoppedBy == at && now && w != nil && strings.Contains(w.Text, "it was stopped at "+at+" on ")
	})
}

// TestAnyMemberEndsARollout: the member at hand finishes, nobody else begins, by itself neither, and everybody says who it was.
func TestAnyMemberEndsARollout(t *testing.T) {
	t.Parallel()
	tried := make(chan struct{}) // the one whose turn it is stays at it until all is said
	// Five, so that most are there while one is away and one starts anew, however long that takes: else who leads may lose the lock.
	fl := newFleet(t, 5, func(i int, m *mate) {
		m.trial, m.tried, m.more = longWait, tried, "update: {auto: true}\n"
		if i >= 3 { // it does not lead, and may end what others do
			m.is.Refuses = "its program belongs to another program"
		}
	})
	late, ends := fl.machines[2], fl.machines[3]
	late.end() // it hears of it when it is over
	if r, code := ends.mesh(status.RolloutRequest{Stop: true}); code != http.StatusOK || r.Version != "" {
		t.Errorf("nothing is under way: %d, %+v", code, r)
	}
	fl.machines[0].lead("v1.1.0")
	holds(t, "the first one's turn", func() bool { order, _ := fl.went(); return len(order) == 1 })
	holds(t, "it is known", func() bool { return ends.rollout().Led })
	if r, code := ends.mesh(status.RolloutRequest{Stop: true}); code != http.StatusOK || r.Stage != "running" {
		t.Errorf("it is not ended: %d, %+v", code, r)
	}
	holds(t, "who leads has heard of it", func() bool {
		ends.owner(t, http.MethodGet, "/api/update/mesh", "") // as who stopped it does meanwhile
		return fl.machines[0].rollout().StoppedBy == "n03"
	})
	close(tried)
	for _, m := range []*mate{fl.machines[0], fl.machines[1], ends} {
		m.ended("n03")
	}
	if r, code := fl.machines[1].mesh(status.RolloutRequest{Stop: true}); code != http.StatusOK || r.Stage != "stopped" || r.StoppedBy != "n03" {
		t.Errorf("once more: %d, %+v", code, r)
	}
	late.start()
	late.ended("n03")
	fl.publish("v1.1.0")
	from := fl.looked()
	holds(t, "all that may have looked for a newer one", func() bool {
		now := fl.looked()
		return now["n00"] > from["n00"]+1 && now["n01"] > from["n01"]+1 && now["n02"] > from["n02"]+1
	})
	if got := fmt.Sprint(fl.versions()); got != "[v1.0.0 v1.1.0 v1.0.0 v1.0.0 v1.0.0]" {
		t.Errorf("%s run", got)
	}
	fl.machines[0].lead("v1.1.0") // a person may want it again, and not
	if _, code := fl.machines[0].mesh(status.RolloutRequest{Stop: true}); code != http.StatusOK {
		t.Errorf("got %d", code)
	}
	for _, m := range fl.machines {
		holds(t, m.name+" knows of nothing that goes on", func() bool { r := m.rollout(); return r.Stage == "stopped" && !r.Led })
	}
}

// TestWhatNobodyLeadsCanBeEnded: the node that is asked leads it to its end.
func TestWhatNobodyLeadsCanBeEnded(t *testing.T) {
	t.Parallel()
	fl := newFleet(t, 3, func(i int, m *mate) { m.note = left(t, "v1.1.0") })
	holds(t, "it is known that nobody leads", func() bool { return fl.machines[1].warning("rollout_alone") != nil })
	if _, code := fl.machines[1].mesh(status.RolloutRequest{Stop: true}); code != http.StatusOK {
		t.Errorf("got %d", code)
	}
	for _, m := range fl.machines {
		m.ended("n01")
	}
	if order, _ := fl.went(); len(order) > 0 {
		t.Errorf("%v were updated", order)
	}
}

// TestOneLeadsAtATime: the other says who.
func TestOneLeadsAtATime(t *testing.T) {
	t.Parallel()
	fl := newFleet(t, 3, func(_ int, m *mate) { m.trial = longWait })
	fl.machines[0].lead("v1.1.0")
	other := fl.machines[2]
	holds(t, "the other knows who leads", func() bool { r := other.rollout(); return r.Led && r.Lead == "n00" })
	if w := other.warning("rollout"); w == nil || !strings.Contains(w.Text, "n00 brings the mesh to v1.1.0") {
		t.Errorf("%+v", w)
	}
	if _, code := other.mesh(status.RolloutRequest{}); code != http.StatusConflict {
		t.Errorf("the other one leads as well: %d", code)
	}
}

// TestTwoThatBeginAtOnce: one of them leads, and each node is updated once.
func TestTwoThatBeginAtOnce(t *testing.T) {
	t.Parallel()
	fl := newFleet(t, 3, nil)
	var both sync.WaitGroup
	for _, m := range []*mate{fl.machines[0], fl.machines[2]} {
		both.Go(func() { m.mesh(status.RolloutRequest{Version: "v1.1.0"}) })
	}
	both.Wait()
	holds(t, "all are updated", func() bool { return fmt.Sprint(fl.versions()) == "[v1.1.0 v1.1.0 v1.1.0]" })
	if order, most := fl.went(); len(order) != 3 || most != 1 {
		t.Errorf("order %v, %d at one time", order, most)
	}
}
