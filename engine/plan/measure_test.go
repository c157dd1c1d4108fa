package plan_test

import (
	"strings"
	"testing"

	"viiwork/engine"
	"viiwork/engine/plan"
)

func TestWhatWasMeasuredReplacesTheFormula(t *testing.T) {
	machine := machines()["rtx-display"]
	m := plan.Model{Name: "moe", File: shapes()["moe-30B-A3B-Q4"], Accel: engine.AccelCUDA, Groups: [][]int{{1}}, Slots: 4, Context: 32768, PromptCache: -1}
	weights := m.File.Size - m.File.Input
	var kv int64
	for _, b := range m.File.Blocks {
		kv += 4 * b.KV(32768, "", "")
	}
	b, ok := plan.Measure(machine, m, []int{1}, map[int]int64{1: weights + kv + 700*mib})
	if !ok || b.Bytes < 699*mib || b.Bytes > 701*mib || b.Tokens != 4*32768 {
		t.Fatalf("measured %+v, %v", b, ok)
	}
	for name, held := range map[string]map[int]int64{"not seen": {0: 20 * gib}, "less than the weights": {1: gib}, "more than the card": {1: 64 * gib}} {
		if _, ok := plan.Measure(machine, m, []int{1}, held); ok {
			t.Errorf("%s: believed", name)
		}
	}
	if p := plan.Check(machine, []plan.Model{m}); len(p.Refusals) > 0 {
		t.Fatalf("refused by the formula: %+v", p.Refusals)
	}
	// What ran is not refused for what the driver holds.
	full := m
	full.Beside, ok = plan.Measure(machine, m, []int{1}, map[int]int64{1: 32600 * mib})
	if p := plan.Check(machine, []plan.Model{full}); !ok || len(p.Refusals) > 0 {
		t.Errorf("a full card that ran is refused: %v %+v", ok, p.Refusals)
	}
	m.Beside = plan.Beside{Bytes: 4 * gib, Tokens: 4 * 32768}
	p := plan.Check(machine, []plan.Model{m})
	if len(p.Refusals) != 1 || !strings.Contains(p.Refusals[0].Text, "fits with 3 slots") {
		t.Errorf("with 4 GiB beside: %+v", p.Refusals)
	}
}
