package plan_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"viiwork/engine"
	"viiwork/engine/gguf"
	"viiwork/engine/plan"
)

// anyMachine is a machine nobody would build, but could.
func anyMachine(r *rand.Rand) plan.Machine {
	m := plan.Machine{Memory: r.Int64N(256) * gib}
	for _, accel := range []engine.Accel{engine.AccelCUDA, engine.AccelROCm} {
		for i := range r.IntN(6) {
			c := plan.Card{Accel: accel, Index: i, Name: fmt.Sprint("kind ", r.IntN(2)), Memory: int64(r.IntN(4)) * 8 * gib, Display: r.IntN(4) == 0}
			if r.IntN(8) == 0 {
				c.Unfit, c.Never = "it is cut into MIG instances", true
			}
			c.Shared = r.IntN(12) == 0
			m.Cards = append(m.Cards, c)
		}
	}
	if r.IntN(6) == 0 {
		m.Cards = []plan.Card{{Accel: engine.AccelMetal, Name: "Apple", Shared: true, Memory: m.Memory * 3 / 4}}
	}
	return m
}

func anyModels(r *rand.Rand) (all []plan.Model) {
	for i := range r.IntN(5) {
		s := shape{
			arch: "llama", layers: 1 + r.IntN(80), weights: r.Int64N(40 * gib), key: r.Int64N(4096), value: r.Int64N(4096),
			window: r.IntN(4096), everyNth: r.IntN(7), context: r.IntN(300_000), width: r.IntN(8192), wide: r.IntN(30_000),
			vocabulary: r.IntN(260_000), input: r.Int64N(gib), output: r.Int64N(gib),
		}
		all = append(all, plan.Model{Name: fmt.Sprint("m", i), File: s.file(fmt.Sprintf("m%d.gguf", r.IntN(4)))})
	}
	return all
}

// laid gives models an arbitrary layout, as an owner might.
func laid(r *rand.Rand, machine plan.Machine, models []plan.Model) []plan.Model {
	for i := range models {
		m := &models[i]
		m.Slots, m.Context, m.PromptCache = 1+r.IntN(8), 256+r.IntN(200_000), r.Int64N(32*gib)-8*gib
		m.Groups = [][]int{nil}
		if len(machine.Cards) == 0 || r.IntN(4) == 0 {
			continue
		}
		c := machine.Cards[r.IntN(len(machine.Cards))]
		if m.Accel = c.Accel; m.Accel == engine.AccelMetal {
			continue
		}
		m.Groups = nil
		for range 1 + r.IntN(2) {
			var group []int
			for range 1 + r.IntN(3) {
				group = append(group, r.IntN(6))
			}
			m.Groups = append(m.Groups, group)
		}
	}
	return models
}

// sound holds a plan against the machine by sums of its own: what must be on cards and in RAM, whatever else is.
func sound(machine plan.Machine, p plan.Plan) error {
	type place struct {
		accel engine.Accel
		index int
	}
	owner, ram := map[place]string{}, int64(0)
	pages, gpu := map[string]int64{}, int64(0)
	for _, m := range p.Models {
		least := int64(0) // of a backend
		for _, b := range m.File.Blocks {
			least += b.Weights + int64(m.Slots)*b.KV(m.Context, m.Key, m.Value)
		}
		ram += m.PromptCache * int64(len(m.Groups))
		if m.PromptCache < 0 {
			return fmt.Errorf("%s has no prompt cache decided", m.Name)
		}
		for _, group := range m.Groups {
			if m.Accel == engine.AccelMetal {
				gpu += least
			}
			room := int64(0)
			for _, index := range group {
				at := place{m.Accel, index}
				if owner[at] != "" {
					return fmt.Errorf("%v belongs to %s and %s", at, owner[at], m.Name)
				}
				owner[at] = m.Name
				for _, c := range machine.Cards {
					if c.Accel != m.Accel || c.Index != index {
						continue
					}
					if c.Never {
						return fmt.Errorf("%s is on a card that cannot run models", m.Name)
					}
					if room += c.Memory; c.Memory == 0 {
						room += 1 << 50
					}
					if c.Shared && c.Memory == 0 {
						room = 1 << 50
					}
				}
			}
			if len(group) > 0 && least > room {
				return fmt.Errorf("%s needs %d of %d on %v", m.Name, least, room, group)
			}
		}
		if m.Accel == engine.AccelNone {
			pages[m.File.Path] = max(pages[m.File.Path], m.File.Size)
		}
	}
	for _, bytes := range pages {
		ram += bytes
	}
	for _, c := range machine.Cards {
		if c.Accel == engine.AccelMetal && c.Memory > 0 && gpu > c.Memory {
			return fmt.Errorf("the GPU holds %d of %d", gpu, c.Memory)
		}
	}
	if machine.Memory > 0 && ram+gpu > machine.Memory {
		return fmt.Errorf("RAM holds %d of %d", ram+gpu, machine.Memory)
	}
	return nil
}

func shuffled(r *rand.Rand, m plan.Machine) plan.Machine {
	m.Cards = append([]plan.Card(nil), m.Cards...)
	r.Shuffle(len(m.Cards), func(i, j int) { m.Cards[i], m.Cards[j] = m.Cards[j], m.Cards[i] })
	return m
}

// seen is all of a plan that anybody sees.
func seen(p plan.Plan) []any { return []any{p.Models, p.Refusals, p.Warnings, p.Notes} }

func TestNeverOverACardNorRAMNorACardTwice(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		machine, models := anyMachine(r), anyModels(r)
		for kind, p := range map[string]plan.Plan{
			"proposal": plan.Propose(machine, models),
			"check":    plan.Check(machine, laid(r, machine, models)),
		} {
			if err := sound(machine, p); err != nil {
				t.Fatalf("seed %d, %s: %v\n%+v", seed, kind, err, p.Notes)
			}
			if len(p.Models)+len(p.Refusals) != len(models) {
				t.Fatalf("seed %d, %s: of %d models %d are placed and %d refused", seed, kind, len(models), len(p.Models), len(p.Refusals))
			}
			for _, refusal := range p.Refusals {
				if refusal.Text == "" || refusal.Key == "" {
					t.Fatalf("seed %d, %s: a refusal without reason: %+v", seed, kind, refusal)
				}
			}
		}
	}
}

func TestTheOrderOfCardsDoesNotMatter(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2))
		machine, models := anyMachine(r), anyModels(r)
		other := shuffled(r, machine)
		if a, b := seen(plan.Propose(machine, models)), seen(plan.Propose(other, models)); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: proposals differ:\n%v\n%v", seed, a, b)
		}
		models = laid(r, machine, models)
		if a, b := seen(plan.Check(machine, models)), seen(plan.Check(other, models)); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: checks differ:\n%v\n%v", seed, a, b)
		}
	}
}

// TestWhatARefusalOffersFits takes refusals at their word.
func TestWhatARefusalOffersFits(t *testing.T) {
	offers := 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 3))
		machine := anyMachine(r)
		models := laid(r, machine, anyModels(r))
		if len(models) == 0 {
			continue
		}
		models = models[:1]
		p := plan.Check(machine, models)
		if len(p.Refusals) == 0 {
			continue
		}
		m := models[0]
		m.Slots = max(m.Slots, 1)
		_, offer, _ := strings.Cut(p.Refusals[0].Text, "; ")
		offer, bare := strings.CutSuffix(offer, " and no prompt cache")
		if bare {
			m.PromptCache = 0
		}
		slots, tokens := 0, 0
		switch {
		case scan(offer, "fits with context %d in 1 slot", &tokens):
			m.Slots, m.Context = 1, tokens
		case scan(offer, "fits with context %d", &tokens):
			m.Context = tokens
		case scan(offer, "fits with %d slot", &slots):
			m.Slots = slots
		default:
			continue
		}
		offers++
		if again := plan.Check(machine, []plan.Model{m}); len(again.Refusals) > 0 {
			t.Fatalf("seed %d: %q, but then: %q", seed, p.Refusals[0].Text, again.Refusals[0].Text)
		}
	}
	if offers < 25 {
		t.Errorf("only %d refusals offered anything", offers)
	}
}

func TestHostileFiguresAreSurvived(t *testing.T) {
	big := int64(1) << 62
	f := gguf.File{Path: "x", Architecture: "llama", Size: big, Input: big, Output: big, Vocabulary: 1 << 30, Width: 1 << 30, Wide: 1 << 30}
	for range 1 << 14 {
		f.Blocks = append(f.Blocks, gguf.Block{Weights: big, Key: big, Value: big, State: big})
	}
	for name, machine := range machines() {
		m := plan.Model{Name: "x", File: f, Slots: 1 << 30, Context: 1 << 30, PromptCache: big, Extra: big, Beside: plan.Beside{Bytes: big, Tokens: 1 << 40}, Groups: [][]int{nil}}
		if p := plan.Propose(machine, []plan.Model{m}); len(p.Refusals) != 1 {
			t.Errorf("%s takes it: %+v", name, p.Models)
		}
		if len(machine.Cards) > 0 && machine.Cards[0].Accel != engine.AccelMetal {
			m.Accel, m.Groups = machine.Cards[0].Accel, [][]int{{0}}
		}
		if p := plan.Check(machine, []plan.Model{m}); len(p.Refusals) != 1 {
			t.Errorf("%s takes it as written: %+v", name, p.Models)
		}
		m.Slots, m.Context, m.PromptCache = 1<<8, 1<<24, 1<<52 // the most that is worked out at all
		if p := plan.Check(machine, []plan.Model{m}); len(p.Refusals) != 1 || strings.Contains(p.Refusals[0].Text, "-") {
			t.Errorf("%s takes what is just within bounds: %+v, %+v", name, p.Models, p.Refusals)
		}
	}
}
