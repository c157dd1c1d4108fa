package route_test

import (
	"math"
	"testing"

	"viiwork/appliance/route"
)

// movers are a home with a full engine that generates answers and holds a conversation, and an idle node.
func movers(stored, unsaved, decoding int) route.Snapshot {
	home := card("a", 0, holding(39_000), freeIn(100))
	home.Replica, home.Unsaved, home.Link = stored, unsaved, 1e9
	home.Backends[0].Decoding = decoding
	return route.Snapshot{
		Nodes: []route.Node{home, card("b", 2)},
		Cache: route.Cache{TokenBytes: 65536, ImportRate: 1e9, ImportStart: 0.1, PullStart: 0.1, SaveRate: 1e9},
	}
}

// TestAnswersThatStandStillForASaveArePriced: those that run at the engine wait for it as well.
func TestAnswersThatStandStillForASaveArePriced(t *testing.T) {
	ask := route.Request{Prompt: 39_000, Home: "a", HomeBackend: "a#0"}
	stall := func(s route.Snapshot) float64 {
		p := route.Pick(s, ask)
		if p.Node != "b" || p.Fetch != route.Pull {
			t.Fatalf("%+v", p)
		}
		return p.Candidates[1].Stall
	}
	seconds := 39_000 * 65536 / 1e9
	if got, want := stall(movers(0, 39_000, 2))-stall(movers(39_000, 0, 2)), 0.5*2*seconds; math.Abs(got-want) > 1e-6 {
		t.Errorf("%v s, want %v", got, want)
	}
}

// TestNobodyCountsOnASaveThatDoesNotPay: its node would not make it; what is stored already is taken then.
func TestNobodyCountsOnASaveThatDoesNotPay(t *testing.T) {
	ask := route.Request{Prompt: 39_000, Home: "a", HomeBackend: "a#0"}
	for _, c := range []struct {
		name     string
		stored   int
		decoding int
		kind     route.Reason
		holds    int
	}{
		{"a minute for what takes 195 s to compute", 0, 2, route.Pull, 39_000},
		{"but not of four at a time", 0, 3, "", 0},
		{"then rather what is there", 30_000, 3, route.Pull, 30_000},
	} {
		s := movers(c.stored, 39_000, c.decoding)
		s.Cache.SaveRate = 39_000 * 65536 / 60.0
		if kind, _, holds, _ := route.Fetch(s, ask, "b", "b#0"); kind != c.kind || holds != c.holds {
			t.Errorf("%s: %q of %d", c.name, kind, holds)
		}
	}
}

// TestWhatIsNotSavedIsNoReplica: another backend of the same node cannot read it.
func TestWhatIsNotSavedIsNoReplica(t *testing.T) {
	s := movers(0, 39_000, 0)
	second := card("a", 2).Backends[0]
	second.ID = "a#1"
	s.Nodes[0].Backends = append(s.Nodes[0].Backends, second)
	if kind, _, _, _ := route.Fetch(s, route.Request{Prompt: 39_000, Home: "a"}, "a", "a#1"); kind != "" {
		t.Errorf("%q", kind)
	}
}
