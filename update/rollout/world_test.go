package rollout_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"viiwork/update/rollout"
)

// world is a mesh whose members do what they want, and a leader that may be killed between any two acts.
type world struct {
	t       testing.TB
	rand    *rand.Rand
	now     time.Time
	members []rollout.Sight
	at      map[string]string // what each is at: "", install, restart or trial; as it is, not as it is seen
	fate    map[string]string // good, back, fault, stuck or dead
	kept    []byte            // what the leader kept last
	back    bool              // one went back from the version
	halted  bool              // a person ended it, and that was kept
	ends    bool              // a person will end it
	starts  int
}

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 7)), now: start, at: map[string]string{}, fate: map[string]string{}}
	n := 1 + w.rand.IntN(8)
	w.ends = seed%4 == 0
	for i := range n {
		s := rollout.Sight{ID: fmt.Sprint("id", i), Name: fmt.Sprint("n", i), Version: "v1.0.0", Wire: 1 + w.rand.IntN(2), Online: w.chance(90), Auto: w.chance(80)}
		for m := range 4 {
			if w.chance(50) {
				s.Models = append(s.Models, fmt.Sprint("m", m))
			}
		}
		if w.chance(10) {
			s.Refuses = "it belongs to dpkg"
		}
		w.members = append(w.members, s)
		w.fate[s.ID] = "good"
		if w.chance(20) {
			w.fate[s.ID] = []string{"back", "fault", "stuck", "dead"}[w.rand.IntN(4)]
		}
	}
	return w
}

func (w *world) chance(percent int) bool { return w.rand.IntN(100) < percent }

// seen is what the leader sees: what a member is at may be out of sight while it restarts.
func (w *world) seen() []rollout.Sight {
	all := slices.Clone(w.members)
	for i := range all {
		s := &all[i]
		s.Busy = w.at[s.ID] == "install" || w.at[s.ID] == "trial"
		s.Online = s.Online && w.at[s.ID] != "restart"
	}
	return all
}

// told is a member that hears that its turn has come.
func (w *world) told(id, roll string) {
	for i := range w.members {
		s := &w.members[i]
		if s.ID != id || !s.Online || w.at[id] != "" || s.Roll == roll && s.Fault != "" {
			continue
		}
		for other, at := range w.at {
			if at != "" && other != id && w.fate[other] != "stuck" && w.fate[other] != "dead" {
				w.t.Errorf("%s begins while %s is at %s", id, other, at)
			}
		}
		w.starts++
		w.at[id], s.Roll, s.Fault = "install", roll, ""
	}
}

// goOn lets members come a step further.
func (w *world) goOn(roll rollout.Roll) {
	for i := range w.members {
		s := &w.members[i]
		fate := w.fate[s.ID]
		if w.at[s.ID] == "" && w.chance(3) {
			s.Online = !s.Online
		}
		if w.at[s.ID] == "" && w.chance(3) {
			s.Draining = !s.Draining
		}
		if w.at[s.ID] == "" || w.chance(50) {
			continue
		}
		switch {
		case w.at[s.ID] == "install" && fate == "fault":
			w.at[s.ID], s.Fault = "", "no space left"
		case w.at[s.ID] == "install" && fate != "stuck":
			w.at[s.ID] = "restart"
		case w.at[s.ID] == "restart" && fate != "dead":
			w.at[s.ID], s.Version = "trial", roll.Version
		case w.at[s.ID] == "trial" && fate == "back":
			w.at[s.ID], s.Version, s.Bad = "", "v1.0.0", roll.Version
			s.Back++
			w.back = true
		case w.at[s.ID] == "trial":
			w.at[s.ID] = ""
		}
	}
}

// look is one look of the leader, which may be killed before it keeps what it decided, before it acts or after.
func (w *world) look(open bool) (rollout.Roll, rollout.Step) {
	var r rollout.Roll
	if err := json.Unmarshal(w.kept, &r); err != nil {
		w.t.Fatal(err)
	}
	if w.ends && w.chance(2) {
		r = r.Halt(w.now, "n0")
	}
	seen, before := w.seen(), r
	r, step := r.Next(w.now, open, seen)
	w.check(before, r, step, open, seen)
	if w.chance(5) {
		return before, rollout.Step{Act: rollout.Wait}
	}
	w.kept, _ = json.Marshal(r)
	w.halted = !r.Halted.IsZero()
	if step.Act == rollout.Start && w.chance(80) { // else it is killed, or the message is lost
		w.told(step.Member, r.ID)
	}
	return r, step
}

// check holds a decision against what was promised.
func (w *world) check(before, r rollout.Roll, step rollout.Step, open bool, seen []rollout.Sight) {
	hand := 0
	for _, e := range r.Members {
		if e.State == rollout.Updating {
			hand++
		}
	}
	if hand > 1 {
		w.t.Errorf("%d are at hand", hand)
	}
	had := slices.ContainsFunc(before.Members, func(e rollout.Entry) bool { return e.State == rollout.Updating && e.ID == step.Member })
	if step.Act != rollout.Start || had {
		return
	}
	if !open || w.back || w.halted {
		w.t.Errorf("a turn begins; window %v, gone back %v, ended %v", open, w.back, w.halted)
	}
	i := slices.IndexFunc(seen, func(s rollout.Sight) bool { return s.ID == step.Member })
	for _, m := range seen[i].Models {
		if !seen[i].Draining && !slices.ContainsFunc(seen, func(s rollout.Sight) bool {
			return s.ID != step.Member && s.Online && !s.Draining && slices.Contains(s.Models, m)
		}) {
			w.t.Errorf("%s goes, and nobody serves %s", step.Member, m)
		}
	}
	if r.Auto && !seen[i].Auto {
		w.t.Errorf("%s goes unasked", step.Member)
	}
}

// TestWhateverMembersDo: never two at once, never the last ready host, nothing new after one went back, after a person's word
// or outside of the window, and always an end.
func TestWhateverMembersDo(t *testing.T) {
	ends := map[rollout.Stage]int{}
	starts, halted := 0, 0
	for seed := range uint64(800) {
		w := newWorld(t, seed)
		r, err := rollout.Begin(rollout.Order{ID: "r1", Version: "v1.1.0", Lead: "id0", Auto: w.chance(30), Now: w.now}, w.seen())
		if err != nil {
			t.Fatal(err)
		}
		w.kept, _ = json.Marshal(r)
		open, over := true, false
		for range 3000 {
			w.now = w.now.Add(time.Duration(w.rand.IntN(60)) * time.Second)
			if w.chance(2) {
				open = !open
			}
			r, step := w.look(open)
			if over = step.Act == rollout.End; over {
				ends[r.Stage]++
				if w.halted {
					halted++
				}
				break
			}
			w.goOn(r)
		}
		if starts += w.starts; !over {
			t.Errorf("seed %d does not end: %s", seed, w.kept)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d turns; %v, %d of them by a person", starts, ends, halted)
	if ends[rollout.Ended] == 0 || ends[rollout.Stopped] == 0 || halted == 0 || starts < 800 {
		t.Error("these worlds prove nothing")
	}
}
