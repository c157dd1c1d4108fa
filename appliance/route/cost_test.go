package route_test

import (
	"math"
	"testing"
	"time"

	"viiwork/appliance/route"
)

// card has two slots and computes 200 tokens a second.
func card(id string, free int, change ...func(*route.Backend)) route.Node {
	b := route.Backend{ID: id + "#0", Ready: true, Slots: 2, Free: free, Prefill: 200, Decode: 18, Slowdown: 0.25, Residents: 1}
	for _, f := range change {
		f(&b)
	}
	return route.Node{ID: id, Name: "name-" + id, Local: id == "self", Backends: []route.Backend{b}}
}

func holding(tokens int) func(*route.Backend) { return func(b *route.Backend) { b.Held = tokens } }
func residents(n int) func(*route.Backend)    { return func(b *route.Backend) { b.Residents = n } }
func freeIn(seconds int) func(*route.Backend) {
	return func(b *route.Backend) { b.FreeIn = time.Duration(seconds) * time.Second }
}
func computing(tokens int) func(*route.Backend) {
	return func(b *route.Backend) { b.Outstanding = tokens }
}
func fast(b *route.Backend) { b.Prefill, b.Decode = 2500, 60 }

func plan(r route.Request, nodes ...route.Node) route.Plan {
	return route.Pick(route.Snapshot{Nodes: nodes}, r)
}

func TestAConversationGoesWhereItsAnswerBeginsSoonest(t *testing.T) {
	warm := route.Request{Prompt: 40_000, Home: "a", HomeBackend: "a#0"}
	last := warm
	last.Left = time.Second
	early := warm
	early.Left = 60 * time.Second
	stands := route.Request{Prompt: 40_000, Stands: "b", Place: 1}
	forget := warm
	forget.Forget = true
	for _, c := range []struct {
		name  string
		ask   route.Request
		nodes []route.Node
		node  string
		wait  bool
		why   route.Reason
	}{
		{"home, though this node is free", warm, []route.Node{card("a", 1, holding(39_000)), card("self", 2)}, "a", false, route.Home},
		{"waits at home rather than compute 40,000 tokens elsewhere", warm, []route.Node{card("a", 0, holding(39_000), freeIn(30)), card("self", 2)}, "a", true, route.Wait},
		{"does not wait longer than that would take", warm, []route.Node{card("a", 0, holding(39_000), freeIn(600)), card("self", 2)}, "self", false, route.Move},
		{"a fast card is soon worth more than a wait", warm, []route.Node{card("a", 0, holding(39_000), freeIn(60)), card("b", 2, fast)}, "b", false, route.Move},
		{"little gain is no reason to leave", route.Request{Prompt: 500, Home: "a", HomeBackend: "a#0"}, []route.Node{card("a", 0, holding(400), freeIn(2)), card("self", 2)}, "a", true, route.Wait},
		{"a rewritten history is as cold at home, and leaves a full one", route.Request{Prompt: 2_000, Home: "a", HomeBackend: "a#0"}, []route.Node{card("a", 0, freeIn(60)), card("self", 2)}, "self", false, route.Move},
		{"rather elsewhere than refused, where there is room", last, []route.Node{card("a", 0, holding(39_000), freeIn(30)), card("self", 2), card("b", 2)}, "self", false, route.Move},
		{"rather refused than at the cost of all, where there is none", last, []route.Node{card("a", 0, holding(39_000), freeIn(30)), card("b", 1), card("c", 0), card("d", 0)}, "a", true, route.Wait},
		{"it does not begin a wait that ends in a refusal", early, []route.Node{card("a", 0, holding(39_000), freeIn(90)), card("self", 2), card("b", 2)}, "self", false, route.Move},
		{"unless the others have work", early, []route.Node{card("a", 0, holding(39_000), freeIn(90)), card("b", 0), card("c", 1)}, "a", true, route.Wait},
		{"whoever holds it, without a key", route.Request{Prompt: 40_000}, []route.Node{card("a", 1, holding(30_000)), card("self", 2)}, "a", false, route.Cold},
		{"where nobody lives yet", route.Request{Prompt: 300}, []route.Node{card("a", 1, residents(3)), card("b", 1, residents(1)), card("c", 1, residents(3))}, "b", false, route.Cold},
		{"not behind a long prompt", route.Request{Prompt: 5_000}, []route.Node{card("a", 1, computing(60_000)), card("b", 1)}, "b", false, route.Cold},
		{"the place in a line is kept", stands, []route.Node{card("a", 0, freeIn(5)), card("b", 0, freeIn(60))}, "b", true, route.Cold},
		{"but for a slot", stands, []route.Node{card("a", 1), card("b", 0, freeIn(60))}, "a", false, route.Cold},
		{"without affinity the home is one of many", forget, []route.Node{card("a", 0, holding(39_000), freeIn(30)), card("self", 2)}, "self", false, route.Cold},
	} {
		got := plan(c.ask, c.nodes...)
		if got.Node != c.node || got.Wait != c.wait || got.Reason != c.why {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestAWaitersBackend: who waits for its cache takes no other slot; who is cold takes the first of the node.
func TestAWaitersBackend(t *testing.T) {
	n := card("a", 0, holding(39_000))
	n.Backends = append(n.Backends, card("a", 0).Backends[0])
	n.Backends[1].ID = "a#1"
	if p := plan(route.Request{Prompt: 40_000, Home: "a", HomeBackend: "a#0"}, n); !p.Wait || p.Backend != "a#0" {
		t.Errorf("at home: %+v", p)
	}
	if p := plan(route.Request{Prompt: 40_000}, n); !p.Wait || p.Backend != "a#0" {
		t.Errorf("where its prefix is: %+v", p)
	}
	n.Backends[0].Held = 0
	if p := plan(route.Request{Prompt: 40_000}, n); !p.Wait || p.Node != "a" || p.Backend != "" {
		t.Errorf("cold: %+v", p)
	}
}

// TestWhoWaitsForAnotherBackendIsNotBefore: who accepts the home's backend alone is, and who accepts any takes a share.
func TestWhoWaitsForAnotherBackendIsNotBefore(t *testing.T) {
	queue := func(all, here, there int) float64 {
		n := card("a", 0, freeIn(10))
		n.Waiting, n.Backends[0].Waiting = all, here
		other := card("a", 0, freeIn(10)).Backends[0]
		other.ID, other.Waiting = "a#1", there
		n.Backends = append(n.Backends, other)
		return plan(route.Request{Prompt: 2000, Home: "a", HomeBackend: "a#0"}, n).Candidates[0].Queue
	}
	alone, others, any, here := queue(0, 0, 0), queue(3, 0, 3), queue(3, 0, 0), queue(3, 3, 0)
	if others != alone || any <= alone || here <= any {
		t.Errorf("the wait is %v s; behind three who want the other %v, any %v, this one %v", alone, others, any, here)
	}
}

func TestAPlanExplainsItself(t *testing.T) {
	p := plan(route.Request{Prompt: 40_000, Home: "a", HomeBackend: "a#0"},
		card("a", 0, holding(39_000), freeIn(30)), card("b", 1, residents(4), computing(900)), card("self", 2), node("c", 4, draining))
	if len(p.Candidates) != 3 {
		t.Fatalf("%d candidates, want the three that could do: %+v", len(p.Candidates), p.Candidates)
	}
	for _, c := range p.Candidates {
		sum := c.Prefill + c.Decode + c.Stall + c.Shadow + c.Queue + c.Load + c.Reserve + c.RTT
		if math.Abs(sum-c.Total) > 1e-9 {
			t.Errorf("%s: the terms are %v, the total %v", c.Node, sum, c.Total)
		}
	}
	home, self := p.Candidates[0], p.Candidates[2]
	if home.Held != 39_000 || home.Prefill != 5 || home.Queue != 30 || home.RTT != 0.3 {
		t.Errorf("the home's terms: %+v", home)
	}
	if self.Prefill != 200 || self.Queue != 0 || self.RTT != 0 {
		t.Errorf("this node's terms: %+v", self)
	}
}

// TestCachesAreMovedWhereThatIsQuicker: from the node's own disk, else over the network, else not at all.
func TestCachesAreMovedWhereThatIsQuicker(t *testing.T) {
	ask := route.Request{Prompt: 40_000, Home: "a", HomeBackend: "a#0"}
	mesh := func(own, away int, link float64) route.Snapshot {
		home := card("a", 0, holding(39_000), freeIn(100))
		home.Replica, home.Link = away, link
		other := card("b", 2)
		other.Replica = own
		return route.Snapshot{Nodes: []route.Node{home, other}, Cache: route.Cache{TokenBytes: 65536, StateBytes: 150 << 20, ImportRate: 1e9}}
	}
	for _, c := range []struct {
		name      string
		own, away int
		link      float64
		node      string
		fetch     route.Reason
		from      string
	}{
		{"no replica: it waits", 0, 0, 1e8, "a", "", ""},
		{"from the node's own disk", 38_000, 0, 0, "b", route.Import, ""},
		{"from the home", 0, 39_000, 1e8, "b", route.Pull, "a"},
		{"not over a link that is too slow", 0, 39_000, 1e6, "a", "", ""},
		{"not from a node that does not send", 0, 39_000, 0, "a", "", ""},
		{"not what is longer to fetch than it saves", 37_000, 39_000, 1e6, "b", route.Import, ""},
	} {
		p := route.Pick(mesh(c.own, c.away, c.link), ask)
		if p.Node != c.node || p.Fetch != c.fetch || p.From != c.from {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
}

// TestFreeInIsTheFirstToEnd holds the guess against one made by hand: 419-19 tokens at 18/1.25 a second, and behind them
// 1,000 tokens of another's prompt that hold them up.
func TestFreeInIsTheFirstToEnd(t *testing.T) {
	b := card("a", 0).Backends[0]
	got := route.FreeIn(b, []route.Running{{Produced: 19}, {Prompt: 1000}}, 419).Seconds()
	if want := 400/(18/1.25) + 0.85*1000/200; math.Abs(got-want) > 1e-6 {
		t.Errorf("%v s, want %v", got, want)
	}
	if got := route.FreeIn(b, nil, 419); got != 0 {
		t.Errorf("an idle one frees in %v", got)
	}
	if got := route.FreeIn(route.Backend{}, []route.Running{{Produced: -5, Prompt: math.MaxInt}}, math.NaN()); got <= 0 || got > 100_000*time.Second {
		t.Errorf("from nonsense: %v", got)
	}
}

// TestShortRequestsLoadABackendLess: who lives at a backend costs others no more than the time that requests take a slot
// there, which may be much shorter than an agent's turn is as a rule.
func TestShortRequestsLoadABackendLess(t *testing.T) {
	ask := route.Request{Prompt: 2000, Home: "a", HomeBackend: "a#0"}
	crowded := card("a", 2, holding(1900), residents(8))
	mesh := route.Snapshot{Nodes: []route.Node{crowded, card("self", 2)}, Output: 20, Think: 600 * time.Millisecond}
	if p := route.Pick(mesh, ask); p.Reason != route.Move {
		t.Errorf("of eight whose turns take as long as usual it leaves: %+v", p)
	}
	mesh.Nodes[0].Hold = 100 * time.Millisecond
	if p := route.Pick(mesh, ask); p.Reason != route.Home {
		t.Errorf("of eight whose turns take 0.1 s it stays: %+v", p)
	}
}
