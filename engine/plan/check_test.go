package plan_test

import (
	"math"
	"strings"
	"testing"

	"viiwork/engine"
	"viiwork/engine/gguf"
	"viiwork/engine/plan"
)

// TestRefusalsSayWhatIsNeededWhatIsThereAndWhatWouldDo holds each reason against its words.
func TestRefusalsSayWhatIsNeededWhatIsThereAndWhatWouldDo(t *testing.T) {
	dense, moe, huge := shapes()["dense-27B-Q4"], shapes()["moe-30B-A3B-Q4"], shapes()["huge-400GB"]
	vega, mac, unified := machines()["gfx906x4-igpu"], machines()["m3-ultra"], machines()["gb10"]
	mig := plan.Machine{Cards: cards(engine.AccelCUDA, "A100", 0, 2, 40*gib), Memory: 64 * gib}
	mig.Cards[1].Unfit, mig.Cards[1].Never = "it is cut into MIG instances", true
	on := func(accel engine.Accel, file gguf.File, slots, context int, groups ...[]int) plan.Model {
		return plan.Model{Name: strings.TrimSuffix(file.Path, ".gguf"), File: file, Accel: accel, Groups: groups, Slots: slots, Context: context, PromptCache: -1}
	}
	uneven := on(engine.AccelROCm, dense, 1, 8192, []int{0, 1})
	uneven.Shares = []float64{1, 0}
	tooMuch := on(engine.AccelNone, moe, 1, 1<<24, nil)
	tooMuch.PromptCache = 1 << 50
	for name, c := range map[string]struct {
		machine plan.Machine
		models  []plan.Model
		key     string
		want    string
	}{
		"slots": {vega, []plan.Model{on(engine.AccelROCm, dense, 16, 32768, []int{0, 1})}, "parallel",
			"needs 52.1 GiB at 16 × 32k, cards 0+1 have 31.0 GiB; fits with 5 slots"},
		"context": {vega, []plan.Model{on(engine.AccelROCm, dense, 1, 262144, []int{0, 1})}, "context",
			"needs 33.4 GiB at 1 × 256k, cards 0+1 have 31.0 GiB; fits with context 131072"},
		"cards": {vega, []plan.Model{on(engine.AccelROCm, dense, 2, 32768, []int{0})}, "gpus",
			"needs 21.0 GiB at 2 × 32k, card 0 has 15.5 GiB; give it more cards a backend (gpus_per_backend), or use a smaller model or quantisation"},
		"one card of several": {vega, []plan.Model{uneven}, "llamacpp.split_weights", "cards 0+1 have 31.0 GiB, but card 0 would hold 17.3 GiB of 15.5 GiB; fits without split_weights"},
		"of another model": {vega, []plan.Model{on(engine.AccelROCm, moe, 1, 8192, []int{0, 1}), on(engine.AccelROCm, dense, 1, 8192, []int{1, 2})}, "gpus",
			"card 1 already belongs to moe: a card has one model, give one of them another"},
		"named twice":   {vega, []plan.Model{on(engine.AccelROCm, moe, 1, 8192, []int{0}, []int{0})}, "gpus", "card 0 is named twice: remove one"},
		"not there":     {vega, []plan.Model{on(engine.AccelROCm, moe, 1, 8192, []int{0, 9})}, "gpus", "this machine has no card 9: it has rocm cards 0, 1, 2, 3 and 4"},
		"cut up":        {mig, []plan.Model{on(engine.AccelCUDA, moe, 1, 8192, []int{1})}, "gpus", "card 1 cannot run a model, it is cut into MIG instances: leave it out of gpus"},
		"a shared GPU":  {mac, []plan.Model{on(engine.AccelMetal, huge, 1, 32768, nil), on(engine.AccelMetal, moe, 16, 65536, nil)}, "parallel", "the GPU has 464.0 GiB, 401.6 GiB used by huge; fits with 7 slots"},
		"both too much": {plan.Machine{Memory: 32 * gib}, []plan.Model{tooMuch}, "context", "this machine has 28 GiB for engines; fits with context 65536 and no prompt cache"},
		"shared memory": {unified, []plan.Model{on(engine.AccelCUDA, moe, 1, 32768, []int{0}), on(engine.AccelNone, dense, 64, 131072, nil)}, "parallel", "this machine has 115 GiB for engines, 20.8 GiB used by moe; fits with 9 slots"},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan.Check(c.machine, c.models)
			if len(p.Refusals) != 1 || p.Refusals[0].Key != c.key || !strings.Contains(p.Refusals[0].Text, c.want) {
				t.Errorf("got %+v\nwant %s: %s\n%v", p.Refusals, c.key, c.want, p.Notes)
			}
		})
	}
}

func TestWhatIsNotKnownIsAWarning(t *testing.T) {
	moe := shapes()["moe-30B-A3B-Q4"]
	vague := plan.Machine{Cards: cards(engine.AccelCUDA, "card", 0, 1, 0), Memory: 64 * gib}
	base := plan.Model{Name: "m", File: moe, Accel: engine.AccelCUDA, Groups: [][]int{{0}}, Slots: 64, Context: 1 << 20, PromptCache: -1}
	newer := base
	newer.File = gguf.File{Path: "m.gguf", Size: 10 * gib}
	bare := base
	bare.File = gguf.File{Path: "m.gguf", Size: gib, Architecture: "llama"}
	inRAM := base
	inRAM.Accel, inRAM.Groups = engine.AccelNone, [][]int{nil}
	igpu := base
	igpu.Accel, igpu.Groups, igpu.ByHand = engine.AccelROCm, [][]int{{4}}, true
	for name, c := range map[string]struct {
		machine plan.Machine
		model   plan.Model
		want    string
	}{
		"memory of a card": {vague, base, "m: the memory of card 0 is not told, so whether it fits is not known"},
		"no layers":        {machines()["wsl"], bare, "m: its file says nothing of its layers, so whether it fits is not known"},
		"a newer file":     {machines()["wsl"], newer, "m: its file says nothing of its layers, so whether it fits is not known"},
		"cards":            {machines()["no-gpu"], base, "no cuda card can be seen from here: whether m fits is not known"},
		"memory":           {plan.Machine{}, inRAM, "the size of this machine's memory is not known, so whether m fits is not either"},
		"asked for":        {machines()["gfx906x4-igpu"], igpu, "m runs on card 4 although it is part of the processor"},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan.Check(c.machine, []plan.Model{c.model})
			if len(p.Refusals) > 0 || len(p.Models) != 1 || len(p.Warnings) == 0 || p.Warnings[0].Text != c.want {
				t.Errorf("refusals %+v, warnings %+v, want %q", p.Refusals, p.Warnings, c.want)
			}
		})
	}
}

// TestPromptCachesShareWhatRAMHasLeft, within 2 and 64 GiB, and what is there where that is less.
func TestPromptCachesShareWhatRAMHasLeft(t *testing.T) {
	for _, c := range []struct {
		memory int64
		groups int
		fixed  int64
		want   int64
	}{
		{64 * gib, 1, 0, 59 * gib}, // less 4 and the embedding matrix, in whole GiB
		{64 * gib, 4, 0, 14 * gib},
		{64 * gib, 4, 20 * gib, 9 * gib},
		{1024 * gib, 2, 0, 64 * gib},
		{12 * gib, 4, 0, 2 * gib},
		{6 * gib, 4, 0, 1280 * mib},
		{1 * gib, 1, 0, 512 * mib},
		{0, 3, 0, 8 * gib},
	} {
		m := plan.Model{Name: "m", File: shapes()["embedding-600M"], Accel: engine.AccelCUDA, Slots: 1, Context: 8192, PromptCache: -1}
		for i := range c.groups {
			m.Groups = append(m.Groups, []int{i})
		}
		models := []plan.Model{m}
		if c.fixed > 0 {
			models = append(models, plan.Model{Name: "fixed", File: m.File, Accel: engine.AccelCUDA, Groups: [][]int{{c.groups}}, Slots: 1, Context: 8192, PromptCache: c.fixed})
		}
		p := plan.Check(plan.Machine{Cards: cards(engine.AccelCUDA, "card", 0, 5, 24*gib), Memory: c.memory}, models)
		if len(p.Models) != len(models) || p.Models[0].PromptCache != c.want {
			t.Errorf("%d GiB over %d backends beside %d GiB: %+v, want %d MiB each", c.memory/gib, c.groups, c.fixed/gib, p.Notes, c.want/mib)
		}
	}
}

// TestAbsurdWishesDoNotFit: what is beyond all bounds is refused, and not cut down to what would fit.
func TestAbsurdWishesDoNotFit(t *testing.T) {
	file := shape{arch: "mamba", layers: 2, weights: mib, state: 1024, everyNth: 3, width: 8, wide: 8, vocabulary: 8, input: 1, output: 1}.file("m.gguf")
	machine := plan.Machine{Cards: cards(engine.AccelCUDA, "card", 0, 2, 1<<62), Memory: 1 << 62}
	base := plan.Model{Name: "m", File: file, Accel: engine.AccelCUDA, Groups: [][]int{{0, 1}}, Slots: 1, Context: 8192}
	if p := plan.Check(machine, []plan.Model{base}); len(p.Refusals) > 0 {
		t.Fatalf("a sensible one: %+v", p.Refusals)
	}
	for key, change := range map[string]func(*plan.Model){
		"parallel":              func(m *plan.Model) { m.Slots = 1_000_000 },
		"context":               func(m *plan.Model) { m.Context = 1 << 31 },
		"llamacpp.prompt_cache": func(m *plan.Model) { m.PromptCache = math.MaxInt64 },
	} {
		for _, accel := range []engine.Accel{engine.AccelCUDA, engine.AccelNone} {
			m := base
			if m.Accel = accel; accel == engine.AccelNone {
				m.Groups = [][]int{nil}
			}
			change(&m)
			if p := plan.Check(machine, []plan.Model{m}); len(p.Refusals) != 1 || p.Refusals[0].Key != key {
				t.Errorf("%s: %+v", key, p)
			}
		}
	}
}

// TestManyCachesDoNotWrap: a few thousand backends with the largest cache there can be sum up to nothing in 64 bits.
func TestManyCachesDoNotWrap(t *testing.T) {
	m := plan.Model{Name: "m", File: shapes()["embedding-600M"], Groups: make([][]int, 1<<12), Slots: 1, Context: 4096, PromptCache: 1 << 52}
	if p := plan.Check(plan.Machine{Memory: 1 << 50}, []plan.Model{m}); len(p.Refusals) != 1 {
		t.Errorf("%+v", p.Models)
	}
}

// TestSharesThatAreNoNumbersDoNotFit: a card must not be taken for empty because its share is beyond all bounds.
func TestSharesThatAreNoNumbersDoNotFit(t *testing.T) {
	machine := plan.Machine{Cards: cards(engine.AccelCUDA, "card", 0, 2, 8*gib), Memory: 64 * gib}
	for _, shares := range [][]float64{{1e308, 1e308}, {math.Inf(1), 1}, {math.NaN(), 1}, {math.Inf(1), math.Inf(1)}, {-1, math.NaN()}} {
		for _, split := range []string{"", "row"} {
			m := plan.Model{Name: "m", File: shapes()["moe-30B-A3B-Q4"], Accel: engine.AccelCUDA, Groups: [][]int{{0, 1}}, Slots: 1, Context: 4096, Shares: shares, Split: split}
			if p := plan.Check(machine, []plan.Model{m}); len(p.Refusals) != 1 {
				t.Errorf("17 GiB on two cards of 8, shares %v, split %q: %+v", shares, split, p.Notes)
			}
		}
	}
}

// TestWhatAPlanTakesOfACardIsTold, of each card it takes of, and of no other.
func TestWhatAPlanTakesOfACardIsTold(t *testing.T) {
	m := plan.Model{Name: "m", File: shapes()["dense-27B-Q4"], Accel: engine.AccelROCm, Groups: [][]int{{0, 1}}, Slots: 2, Context: 8192, PromptCache: -1}
	p := plan.Check(machines()["gfx906x4-igpu"], []plan.Model{m})
	if first, second := p.Taken(engine.AccelROCm, 0), p.Taken(engine.AccelROCm, 1); first < 5*gib || second < 5*gib || first > 16*gib || second > 16*gib {
		t.Errorf("%d and %d bytes; %+v", first, second, p.Refusals)
	}
	var none plan.Plan
	if got := p.Taken(engine.AccelROCm, 2) + p.Taken(engine.AccelCUDA, 0) + none.Taken(engine.AccelROCm, 0); got != 0 {
		t.Errorf("%d bytes of cards that it takes nothing of", got)
	}
}
