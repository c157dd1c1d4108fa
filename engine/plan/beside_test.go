package plan_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"viiwork/engine"
	"viiwork/engine/plan"
)

// usedAs says of every card that so much is taken.
func usedAs(bytes int64) func(engine.Accel, int) (int64, bool) {
	return func(engine.Accel, int) (int64, bool) { return bytes, true }
}

func TestSecondEngineNeedsRoomThatIsPlannedAndMeasured(t *testing.T) {
	small := plan.Model{Name: "embedding", File: shapes()["embedding-600M"], Accel: engine.AccelCUDA, Groups: [][]int{{1}}, Slots: 1, Context: 8192, PromptCache: 2 * gib}
	large := plan.Model{Name: "dense", File: shapes()["dense-27B-Q4"], Accel: engine.AccelCUDA, Groups: [][]int{{1}}, Slots: 1, Context: 32768, PromptCache: 2 * gib}
	cpu := plan.Model{Name: "cpu", File: shapes()["swa-12B-Q4"], Groups: [][]int{nil}, Slots: 1, Context: 8192, PromptCache: gib}
	byHand, unread := small, small
	byHand.ByHand = true
	unread.File.Architecture = ""
	free := plan.Measured{Used: usedAs(2 * gib), Available: 60 * gib}
	for name, c := range map[string]struct {
		machine string
		m       plan.Model
		now     plan.Measured
		says    string // "" = there is room
	}{
		"small on a large card":   {"rtx-display", small, free, ""},
		"large on its own card":   {"rtx-display", large, free, "of card 1"},
		"card full of others":     {"rtx-display", small, plan.Measured{Used: usedAs(31 * gib), Available: 60 * gib}, "of card 1"},
		"card without reading":    {"rtx-display", small, plan.Measured{Available: 60 * gib}, "not known"},
		"RAM full of others":      {"rtx-display", small, plan.Measured{Used: usedAs(2 * gib), Available: 5 * gib}, "of RAM"},
		"RAM without reading":     {"rtx-display", small, plan.Measured{Used: usedAs(2 * gib)}, "not known"},
		"placed by hand":          {"rtx-display", byHand, free, "not known"},
		"a file that says little": {"rtx-display", unread, free, "not known"},
		"no cards":                {"no-gpu", cpu, plan.Measured{Available: 24 * gib}, ""},
		"no cards and little RAM": {"no-gpu", cpu, plan.Measured{Available: 10 * gib}, "of RAM"},
		"cards that share RAM":    {"gb10", func() plan.Model { m := large; m.Groups = [][]int{{0}}; return m }(), plan.Measured{Available: 90 * gib}, ""},
	} {
		p := plan.Check(machines()[c.machine], []plan.Model{c.m})
		if len(p.Refusals) > 0 {
			t.Fatalf("%s: %+v", name, p.Refusals)
		}
		err := p.Beside(c.m.Name, c.m.Groups[0], c.now)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	p := plan.Check(machines()["rtx-display"], []plan.Model{small})
	if p.Beside("another", []int{1}, free) == nil || p.Beside("embedding", []int{7}, free) == nil {
		t.Error("room for what is not planned")
	}
	var none plan.Plan
	if none.Beside("embedding", []int{1}, free) == nil {
		t.Error("room where nothing was planned")
	}
}

// TestWhatIsHeldBesideNeverOverflowsACard by a sum of its own: what two engines must hold, whatever else
// they do.
func TestWhatIsHeldBesideNeverOverflowsACard(t *testing.T) {
	room := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 7))
		machine := anyMachine(r)
		models := laid(r, machine, anyModels(r))
		p := plan.Check(machine, models)
		now := plan.Measured{Used: usedAs(r.Int64N(8 * gib)), Available: r.Int64N(128 * gib)}
		for _, m := range p.Models {
			for _, group := range m.Groups {
				if p.Beside(m.Name, group, now) != nil {
					continue
				}
				room++
				least := int64(0)
				for _, b := range m.File.Blocks {
					least += b.Weights + int64(m.Slots)*b.KV(m.Context, m.Key, m.Value)
				}
				if m.Accel == engine.AccelNone {
					if least > now.Available || 2*least > machine.Memory {
						t.Fatalf("seed %d: %s takes %d of RAM twice", seed, m.Name, least)
					}
					continue
				}
				held := int64(0)
				for _, index := range group {
					for _, c := range machine.Cards {
						if c.Accel == m.Accel && (c.Index == index || c.Accel == engine.AccelMetal) {
							held += c.Memory
							if c.Shared && c.Memory == 0 {
								held += machine.Memory
							}
						}
					}
				}
				if 2*least > held && m.Accel != engine.AccelMetal {
					t.Fatalf("seed %d: %s takes %d twice of %d", seed, m.Name, least, held)
				}
			}
		}
	}
	if room < 50 {
		t.Errorf("there was room %d times: the test shows little", room)
	}
}
