package appliance_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"viiwork/appliance"
	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
	"viiwork/serf"
	"viiwork/update/rollout"
)

// TestTheFleetGoesToTheNextVersion one node at a time, who leads last, while requests that come in elsewhere are all answered.
func TestTheFleetGoesToTheNextVersion(t *testing.T) {
	t.Parallel()
	fl := newFleet(t, 4, func(i int, m *mate) {
		if i == 3 { // it is where the requests come in, and stays
			m.models, m.is.Refuses = nil, "its program belongs to another program"
		}
	})
	lead, entry := fl.machines[0], fl.machines[3]
	fl.publish("v1.1.0")
	plan, code := lead.mesh(status.RolloutRequest{Plan: true})
	if code != http.StatusOK || plan.Stage != "planned" || fmt.Sprint(plan.Order) != "[n01 n02 n00]" || plan.Version != "v1.1.0" {
		t.Fatalf("the plan: %d %+v", code, plan)
	}
	if order, _ := fl.went(); len(order) > 0 {
		t.Fatal("planning updates")
	}
	clients := under(t, entry.fellow)
	clients.goesOn(t, 20)
	lead.lead("")
	holds(t, "all that can be updated are", func() bool { return fmt.Sprint(fl.versions()) == "[v1.1.0 v1.1.0 v1.1.0 v1.0.0]" })
	holds(t, "everybody knows its end", func() bool {
		return !slices.ContainsFunc(fl.machines, func(m *mate) bool { r := m.rollout(); return r.Stage != "ended" || r.Led })
	})
	clients.goesOn(t, 20)
	clients.stop()
	order, most := fl.went()
	if fmt.Sprint(order) != "[n01 n02 n00]" || most != 1 {
		t.Errorf("order %v, %d at one time", order, most)
	}
	for _, e := range entry.rollout().Members {
		if want := map[string]string{"n03": "left"}[e.Name]; e.State != max(want, "done") {
			t.Errorf("%+v", e)
		}
	}
	t.Logf("%d requests answered, none lost", clients.answered.Load())
}

// TestABadVersionGoesNoFurtherThanItsCanary, and every node says why.
func TestABadVersionGoesNoFurtherThanItsCanary(t *testing.T) {
	t.Parallel()
	for fate, says := range map[string]string{
		"back":    "n01 went back from v1.1.0: m was not ready in time",
		"kept":    "n01 went back from v1.1.0: its image is another by now",
		"refused": "n01, which came first, could not be updated: v1.1.0 refuses",
	} {
		t.Run(fate, func(t *testing.T) {
			t.Parallel()
			fl := newFleet(t, 3, func(i int, m *mate) {
				if i == 1 {
					m.fate, m.trial = fate, 3*time.Second
				}
			})
			fl.machines[0].lead("v1.1.0")
			for _, m := range fl.machines {
				holds(t, m.name+" says that it has stopped", func() bool {
					w := m.warning("rollout_stopped")
					return w != nil && strings.Contains(w.Text, says)
				})
			}
			holds(t, "all are as they were", func() bool { return fmt.Sprint(fl.versions()) == "[v1.0.0 v1.0.0 v1.0.0]" })
			holds(t, "all serve", func() bool {
				var is status.Node
				return fl.machines[1].read("/v1/status", &is) && is.State != "draining" && fl.machines[0].sees("m") == 3
			})
			if order, _ := fl.went(); fmt.Sprint(order) != "[n01]" {
				t.Error(order)
			}
			var pages status.Board
			fl.machines[2].read("/api/board", &pages)
			if i := slices.IndexFunc(pages.Turns, func(b status.BoardTurn) bool { return b.Name == "n01" }); i < 0 || pages.Turns[i].State != "left" || !strings.Contains(pages.Turns[i].Why, says[strings.Index(says, "v1.1.0"):]) || pages.Turns[i].Lead != "n00" {
				t.Errorf("its pages say %+v", pages.Turns)
			}
		})
	}
}

// TestTheOnlyHostOfAModelStays up while nobody else serves it.
func TestTheOnlyHostOfAModelStays(t *testing.T) {
	t.Parallel()
	fl := newFleet(t, 3, func(i int, m *mate) {
		if i == 1 {
			m.models = append(m.models, strings.Replace(m.models[0], "name: m,", "name: k,", 1))
		}
	})
	fl.machines[0].lead("v1.1.0")
	holds(t, "the others are updated", func() bool { return fmt.Sprint(fl.versions()) == "[v1.1.0 v1.0.0 v1.1.0]" })
	holds(t, "it is said which model forbids the last one", func() bool {
		return strings.Contains(fl.machines[2].rollout().Why, "n01 is the only ready host of k")
	})
}

// TestTheFleetUpdatesItself where its owners let it, and catches up with who was off.
func TestTheFleetUpdatesItself(t *testing.T) {
	t.Parallel()
	fl := newFleet(t, 5, func(i int, m *mate) { // most are there while one is off and one starts anew, however long that takes
		m.more = "update: {auto: true}\n"
		if i == 1 || i == 4 {
			m.more = "" // its owner wants to be asked
		}
	})
	fl.machines[3].end()
	fl.publish("v1.1.0")
	holds(t, "those that are there and may be are updated", func() bool { return fmt.Sprint(fl.versions()) == "[v1.1.0 v1.0.0 v1.1.0 v1.0.0 v1.0.0]" })
	holds(t, "it is over", func() bool { return fl.machines[0].rollout().Stage == "ended" })
	for _, e := range fl.machines[0].rollout().Members {
		if want := map[string]string{"n01": "left", "n03": "offline", "n04": "left"}[e.Name]; want != "" && e.State != want {
			t.Errorf("%+v", e)
		}
	}
	fl.machines[3].start()
	holds(t, "who was off has caught up", func() bool { return fl.machines[3].version() == "v1.1.0" })
	if order, most := fl.went(); len(order) != 3 || most != 1 {
		t.Errorf("%v, %d at one time", order, most)
	}
}

// TestWhatDoesNotEndIsEnded: a stream that goes on and on holds an update up for node.drain, and ends with an error event.
func TestWhatDoesNotEndIsEnded(t *testing.T) {
	t.Parallel()
	slow := fakeEngine(t, enginetest.Options{Slots: 4, Model: "s", DecodeTPS: 5})
	fl := newFleet(t, 3, func(i int, m *mate) {
		if i < 2 {
			m.models = append(m.models, served("s", slow.URL(), 2))
		}
	})
	ended := make(chan said, 1)
	go func() { ended <- fl.machines[2].chat("?host=n01", question("s", "go on", 10_000, true)) }()
	holds(t, "it runs", func() bool { return slow.Stats().Active > 0 })
	fl.machines[0].lead("v1.1.0")
	holds(t, "all are updated", func() bool { return fmt.Sprint(fl.versions()) == "[v1.1.0 v1.1.0 v1.1.0]" })
	if got := <-ended; got.status != http.StatusOK || got.complete(true) || !strings.Contains(got.body, `"error"`) {
		t.Errorf("%d %v %.200s", got.status, got.err, got.body[max(0, len(got.body)-200):])
	}
}

// TestAnOpenMeshIsNotLed: in it nobody takes another's word.
func TestAnOpenMeshIsNotLed(t *testing.T) {
	t.Parallel()
	fl := newFleet(t, 1, func(_ int, m *mate) { m.secret = "" })
	if _, code := fl.machines[0].mesh(status.RolloutRequest{}); code != http.StatusConflict {
		t.Errorf("got %d", code)
	}
}

// TestAMuchOlderMemberIsLeftAndTold what to do: it is there, and cannot be asked, or not in words that both know.
func TestAMuchOlderMemberIsLeftAndTold(t *testing.T) {
	old := serf.Member{ID: "0123456789abcdef", Name: "old", State: serf.StateAlive, Version: "v0.9.0", Wire: mesh.Wire}
	ancient, gone := old, old
	ancient.Wire, gone.State = mesh.WireOldest-1, serf.StateFailed
	for _, c := range []struct {
		member serf.Member
		answer int
		state  rollout.State
		says   string
	}{
		{old, http.StatusNotFound, rollout.Left, "too old to be updated from elsewhere: run 'viiwork update' there"},
		{ancient, 0, rollout.Left, "run 'viiwork update' there"},
		{old, http.StatusBadGateway, rollout.Offline, ""},
		{gone, 0, rollout.Offline, ""},
	} {
		seen := []rollout.Sight{appliance.Away(c.member, c.answer), {ID: "1", Name: "new", Version: "v1.0.0", Online: true, Wire: mesh.Wire}}
		r, err := rollout.Begin(rollout.Order{ID: "r1", Version: "v1.1.0", Lead: "1", Now: time.Now()}, seen)
		if err != nil {
			t.Fatal(err)
		}
		r, turns := rollout.Plan(r, time.Now(), seen)
		if e := r.Members[0]; fmt.Sprint(turns) != "[new]" || e.State != c.state || !strings.Contains(e.Why, c.says) {
			t.Errorf("%v, %+v", turns, e)
		}
	}
}

// TestWhoHasNoRoomForItsWordIsLeftAndTold: it obeys nobody, and keeps no other from the version.
func TestWhoHasNoRoomForItsWordIsLeftAndTold(t *testing.T) {
	t.Parallel()
	fl := newFleet(t, 3, nil)
	lock := filepath.Join(fl.machines[1].dir, "state", "meshlock.json") // what stands there cannot be replaced by a file
	if err := errors.Join(os.Remove(lock), os.MkdirAll(filepath.Join(lock, "full"), 0o700)); err != nil {
		t.Fatal(err)
	}
	fl.machines[0].lead("v1.1.0")
	holds(t, "the others are updated", func() bool { return fmt.Sprint(fl.versions()) == "[v1.1.0 v1.0.0 v1.1.0]" })
	holds(t, "it is over", func() bool { return fl.machines[2].rollout().Stage == "ended" })
	for _, e := range fl.machines[2].rollout().Members {
		if e.Name == "n01" && (e.State != "left" || !strings.Contains(e.Why, "it cannot write to its state folder (")) {
			t.Errorf("%+v", e)
		}
	}
}

// TestWhoWasDrainedByItsOwnerStaysSo when its update comes to nothing.
func TestWhoWasDrainedByItsOwnerStaysSo(t *testing.T) {
	t.Parallel()
	fl := newFleet(t, 3, func(i int, m *mate) {
		if i == 1 {
			m.fate = "kept"
		}
	})
	drained := fl.machines[1]
	answer, err := socketClient(drained.dir).Post("http://localhost/api/drain", "application/json", strings.NewReader(`{"off":false}`))
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	_ = answer.Body.Close()
	fl.machines[0].lead("v1.1.0")
	holds(t, "it has come to nothing", func() bool {
		w := drained.warning("rollout_stopped")
		return w != nil && strings.Contains(w.Text, "n01 went back")
	})
	holds(t, "nothing is left of that", func() bool {
		r, _ := fl.machines[0].mesh(status.RolloutRequest{Version: "v1.1.0", Plan: true})
		return slices.Contains(r.Order, "n01")
	})
	var is status.Node
	if !drained.read("/v1/status", &is) || is.State != "draining" {
		t.Errorf("it is %q", is.State)
	}
}

// TestAMeshOfTwoGoesToTheNextVersion: while one of them is away, the other is half of the mesh and decides nothing, and goes on
// when it is back.
func TestAMeshOfTwoGoesToTheNextVersion(t *testing.T) {
	t.Parallel()
	fl := newFleet(t, 2, nil)
	fl.publish("v1.1.0")
	fl.machines[0].lead("")
	holds(t, "both are updated", func() bool { return fmt.Sprint(fl.versions()) == "[v1.1.0 v1.1.0]" })
	holds(t, "both know its end", func() bool {
		return !slices.ContainsFunc(fl.machines, func(m *mate) bool { r := m.rollout(); return r.Stage != "ended" || r.Led })
	})
	if order, most := fl.went(); fmt.Sprint(order) != "[n01 n00]" || most != 1 {
		t.Errorf("order %v, %d at one time", order, most)
	}
}
