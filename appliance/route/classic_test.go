package route_test

import (
	"testing"

	"viiwork/appliance/route"
)

func scored(score float64) func(*route.Node) { return func(n *route.Node) { n.Score = score } }

// shares tells how often each node is picked.
func shares(r route.Request, nodes ...route.Node) map[string]float64 {
	r.Policy = route.Classic
	const draws = 20_000
	got := map[string]float64{}
	for seed := range uint64(draws) {
		r.Seed = seed
		got[route.Pick(route.Snapshot{Nodes: nodes}, r).Node] += 1.0 / draws
	}
	return got
}

func near(got, want float64) bool { return got > want-0.02 && got < want+0.02 }

func TestClassicTakesTheFast(t *testing.T) {
	got := shares(route.Request{}, node("a", 4, scored(1)), node("b", 1, scored(1.2)), node("c", 4, scored(1.3)))
	if !near(got["a"], 1.2/2.2) || !near(got["b"], 1/2.2) || got["c"] != 0 {
		t.Errorf("those within a quarter of the best, the faster more often: %v", got)
	}
	got = shares(route.Request{}, node("a", 4, scored(1)), node("self", 1, scored(1.2)))
	if !near(got["self"], 1) {
		t.Errorf("this node if it is among them: %v", got)
	}
	got = shares(route.Request{}, node("a", 4, scored(1)), node("self", 1, scored(1.3)))
	if !near(got["a"], 1) {
		t.Errorf("this node only if it is among them: %v", got)
	}
	got = shares(route.Request{}, node("a", 0, scored(1)), node("b", 1, scored(9)))
	if !near(got["b"], 1) {
		t.Errorf("the best of those with a free slot: %v", got)
	}
	got = shares(route.Request{Flat: true}, node("a", 1, scored(1)), node("b", 2, scored(9)))
	if !near(got["b"], 1) {
		t.Errorf("with scores switched off the most free slots: %v", got)
	}
}

func TestClassicGivesTheUnknownAChance(t *testing.T) {
	got := shares(route.Request{}, node("a", 4, scored(1)), node("b", 4, scored(3)), node("d", 4, scored(3)), node("c", 4))
	if !near(got["c"], 0.05) || !near(got["a"], 0.95) {
		t.Errorf("one in twenty for who has no score and would be too slow as the median: %v", got)
	}
	got = shares(route.Request{}, node("a", 4, scored(1)), node("c", 4))
	if !near(got["c"], 0.05+0.95/2) {
		t.Errorf("as often as others for who is like the median: %v", got)
	}
	got = shares(route.Request{}, node("a", 4), node("self", 1))
	if !near(got["self"], 1) {
		t.Errorf("without scores the free slot here: %v", got)
	}
}

func TestClassicGoesBackIfThereIsRoom(t *testing.T) {
	two := node("b", 1, scored(9))
	two.Backends = append(two.Backends, route.Backend{ID: "m#1", Ready: true, Slots: 4, Free: 1})
	home := route.Request{Policy: route.Classic, Home: "b", HomeBackend: "m#1"}
	for seed := range uint64(50) {
		home.Seed = seed
		p := plan(home, node("self", 4, scored(1)), two)
		if p.Node != "b" || p.Backend != "m#1" || p.Reason != route.Home {
			t.Fatalf("%+v", p)
		}
	}
	two.Backends[1].Free = 0
	if p := plan(home, node("self", 4, scored(1)), two); p.Node != "b" || p.Backend != "m#0" {
		t.Errorf("the home's other backend: %+v", p)
	}
	two.Backends[0].Free = 0
	if p := plan(home, node("self", 4, scored(1)), two); p.Node != "self" || p.Reason != route.Move {
		t.Errorf("elsewhere when the home is full: %+v", p)
	}
	home.Forget = true
	two.Backends[0].Free = 1
	if p := plan(home, node("self", 4, scored(1)), two); p.Node != "self" || p.Reason != route.Cold {
		t.Errorf("without affinity: %+v", p)
	}
}

func TestClassicWaitsAtTheEntry(t *testing.T) {
	full := []route.Node{node("a", 0), node("self", 0)}
	if p := plan(route.Request{Policy: route.Classic, Home: "a"}, full...); !p.Wait || p.Node != "" {
		t.Errorf("%+v", p)
	}
	if p := plan(route.Request{Policy: route.Classic, Host: "a"}, full...); !p.Wait || p.Node != "a" || p.Reason != route.Pinned {
		t.Errorf("pinned: %+v", p)
	}
	if p := plan(route.Request{Policy: route.Classic}, node("a", 4, draining)); !p.None() {
		t.Errorf("nobody: %+v", p)
	}
}
