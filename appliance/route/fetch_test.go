package route_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"viiwork/appliance/route"
)

// agree says where Fetch and Pick differ: the node that gets a request weighs its cache as the one that sent it there did.
func agree(s route.Snapshot, r route.Request, p route.Plan) error {
	for _, c := range p.Candidates {
		kind, from, holds, seconds := route.Fetch(s, r, c.Node, c.Backend)
		switch {
		case kind != c.Fetch || holds != c.Held:
			return fmt.Errorf("%s of %s: Pick says %q and %d tokens, Fetch %q and %d", c.Backend, c.Node, c.Fetch, c.Held, kind, holds)
		case !(seconds >= 0) || kind == "" && seconds != 0:
			return fmt.Errorf("%s of %s: %q takes %v s", c.Backend, c.Node, kind, seconds)
		case (kind == route.Pull) != (from != "") || from == c.Node && from != "":
			return fmt.Errorf("%s of %s: %q from %q", c.Backend, c.Node, kind, from)
		case p.Node == c.Node && p.Backend == c.Backend && !p.Wait && (p.Fetch != kind || p.From != from):
			return fmt.Errorf("the plan is %q from %q, Fetch says %q from %q", p.Fetch, p.From, kind, from)
		}
	}
	return nil
}

func TestFetchAgreesWithPick(t *testing.T) {
	rng := rand.New(rand.NewPCG(29, 31))
	seen := map[route.Reason]int{}
	for range 20_000 {
		s, r := anyMesh(rng), anyRequest(rng)
		for i := range s.Nodes {
			s.Nodes[i].Kind = []string{"", "", "other"}[rng.IntN(3)]
		}
		p := route.Pick(s, r)
		if err := agree(s, r, p); err != nil {
			t.Fatalf("%v\nmesh %+v\nrequest %+v", err, s, r)
		}
		for _, c := range p.Candidates {
			seen[c.Fetch]++
		}
	}
	for _, kind := range []route.Reason{"", route.Import, route.Pull} {
		if seen[kind] < 30 {
			t.Errorf("%q came up %d times", kind, seen[kind])
		}
	}
}

func TestFetchKnowsNothingOfWhoIsNotThere(t *testing.T) {
	s, r := moving()
	for _, at := range [][2]string{{"x", "b#0"}, {"b", "x"}, {"", ""}} {
		if kind, from, holds, seconds := route.Fetch(s, r, at[0], at[1]); kind != "" || from != "" || holds != 0 || seconds != 0 {
			t.Errorf("%q: %q from %q, %d tokens in %v s", at, kind, from, holds, seconds)
		}
	}
}

// moving is a conversation of 39,000 tokens that lies at a and is to run at b.
func moving() (route.Snapshot, route.Request) {
	home, other := card("a", 0, holding(39_000), freeIn(100)), card("b", 2)
	home.Replica, home.Link = 39_000, 1e8
	return route.Snapshot{Nodes: []route.Node{home, other}, Cache: route.Cache{TokenBytes: 65536, StateBytes: 150 << 20, ImportRate: 1e9}},
		route.Request{Prompt: 40_000, Home: "a", HomeBackend: "a#0"}
}

// TestWhatBringingACacheTakes is worked out by hand: 39,000 tokens are 2,713,190,400 bytes.
func TestWhatBringingACacheTakes(t *testing.T) {
	const bytes = 39_000*65536 + 150<<20
	for _, c := range []struct {
		name   string
		change func(*route.Snapshot)
		kind   route.Reason
		want   float64
	}{
		{"over the network, in the usual time beside the bytes", func(*route.Snapshot) {}, route.Pull, 0.2 + bytes/1e8 + 0.5 + bytes/1e9},
		{"the measured times beside the bytes", func(s *route.Snapshot) { s.Cache.ImportStart, s.Cache.PullStart = 0.05, 3 }, route.Pull, 3 + bytes/1e8 + 0.05 + bytes/1e9},
		{"behind what the home has to send", func(s *route.Snapshot) { s.Nodes[0].Sending = 7 * time.Second }, route.Pull, 7.2 + bytes/1e8 + 0.5 + bytes/1e9},
		{"what the node lacks", func(s *route.Snapshot) { s.Nodes[1].Replica = 30_000 }, route.Pull, 0.2 + (9_000*65536+150<<20)/1e8 + 0.5 + bytes/1e9},
		{"what an engine has to write first", func(s *route.Snapshot) { s.Nodes[0].Replica, s.Nodes[0].Unsaved = 9_000, 39_000 }, route.Pull, 0.2 + bytes/2e9 + bytes/1e8 + 0.5 + bytes/1e9},
		{"at the measured rate", func(s *route.Snapshot) {
			s.Nodes[0].Replica, s.Nodes[0].Unsaved, s.Cache.SaveRate = 0, 39_000, 1e9
		}, route.Pull, 0.2 + bytes/1e9 + bytes/1e8 + 0.5 + bytes/1e9},
		{"what is stored is written already", func(s *route.Snapshot) { s.Nodes[0].Unsaved = 39_000 }, route.Pull, 0.2 + bytes/1e8 + 0.5 + bytes/1e9},
		{"its own engines have no file to read", func(s *route.Snapshot) { s.Nodes[0].Replica, s.Nodes[1].Unsaved = 0, 39_000 }, "", 0},
		{"from its own disk", func(s *route.Snapshot) { s.Nodes[1].Replica = 39_000 }, route.Import, 0.5 + bytes/1e9},
		{"a start that takes longer than computing", func(s *route.Snapshot) { s.Cache.ImportStart = 300 }, "", 0},
		{"or a pull", func(s *route.Snapshot) { s.Cache.PullStart = 300 }, "", 0},
		{"of another kind", func(s *route.Snapshot) { s.Nodes[0].Kind = "other" }, "", 0},
		{"caches are not moved", func(s *route.Snapshot) { s.Cache.ImportRate = 0 }, "", 0},
		{"the home is silent", func(s *route.Snapshot) { s.Nodes[0].Stale = true }, "", 0},
		{"the home is in quarantine", func(s *route.Snapshot) { s.Nodes[0].Quarantined = true }, "", 0},
	} {
		s, r := moving()
		c.change(&s)
		kind, _, _, seconds := route.Fetch(s, r, "b", "b#0")
		if kind != c.kind || math.Abs(seconds-c.want) > 1e-6 {
			t.Errorf("%s: %q in %v s, want %q in %v", c.name, kind, seconds, c.kind, c.want)
		}
	}
}

// TestCacheIsPulledFromWhoHasMostOfIt, of those whose caches are of the kind. A home that has begun anew has the beginning that
// all share; so has the node that wants the cache, and by then it may pass for the home.
func TestCacheIsPulledFromWhoHasMostOfIt(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(home, other, third *route.Node, r *route.Request)
		from   string
	}{
		{"the home, of several alike", func(_, _, third *route.Node, _ *route.Request) { third.Replica = 39_000 }, "a"},
		{"the copy, of a home that lost it", func(home, _, third *route.Node, _ *route.Request) { home.Replica, third.Replica = 4_000, 39_000 }, "c"},
		{"the home, though this node has a part", func(_, other, _ *route.Node, r *route.Request) {
			other.Replica, other.Link, r.Home = 4_000, 1e8, "b"
		}, "a"},
		{"the copy of the kind that fits", func(home, other, third *route.Node, _ *route.Request) {
			home.Kind, other.Kind, third.Kind, third.Replica = "x", "y", "y", 30_000
		}, "c"},
		{"nobody, where none fits", func(home, other, third *route.Node, _ *route.Request) {
			home.Kind, other.Kind, third.Kind, third.Replica = "x", "y", "x", 30_000
		}, ""},
		{"not a copy at a node that sends none", func(home, _, third *route.Node, _ *route.Request) {
			home.Replica, third.Replica, third.Link = 30_000, 39_000, 0
		}, "a"},
	} {
		s, r := moving()
		third := card("c", 0, freeIn(100))
		third.Link = 1e8
		s.Nodes = append(s.Nodes, third)
		c.change(&s.Nodes[0], &s.Nodes[1], &s.Nodes[2], &r)
		if _, from, _, _ := route.Fetch(s, r, "b", "b#0"); from != c.from {
			t.Errorf("%s: from %q, want %q", c.name, from, c.from)
		}
		if p := route.Pick(s, r); p.Node == "b" && p.From != c.from {
			t.Errorf("%s: the plan is to pull from %q", c.name, p.From)
		}
	}
}

// TestImpossibleTimesOfAMoveAreUnknown: what no measurement gives counts as none.
func TestImpossibleTimesOfAMoveAreUnknown(t *testing.T) {
	s, r := moving()
	_, _, _, usual := route.Fetch(s, r, "b", "b#0")
	for _, v := range []float64{-1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		s.Cache.ImportStart, s.Cache.PullStart = v, v
		if _, _, _, got := route.Fetch(s, r, "b", "b#0"); got != usual {
			t.Errorf("%v: %v s, want the usual %v", v, got, usual)
		}
	}
	r.Forget = true
	if kind, _, _, _ := route.Fetch(s, r, "b", "b#0"); kind != "" {
		t.Errorf("without affinity it is still a %q", kind)
	}
}

func TestASavePaysOnceComputingTakesLonger(t *testing.T) {
	for _, c := range []struct {
		name     string
		tokens   int
		prefill  float64
		seconds  float64
		decoding int
		pays     bool
	}{
		{"40,000 tokens of a slow card: 200 s against 1.4", 40_000, 200, 1.4, 0, true},
		{"also while it answers three others", 40_000, 200, 1.4, 3, true},
		{"16 s against 1.4 for each of twelve", 40_000, 2500, 1.4, 11, false},
		{"just as long is not worth it", 1000, 200, 5, 0, false},
		{"a moment more is", 1001, 200, 5, 0, true},
		{"every stream counts as much", 1001, 200, 2.5, 1, true},
		{"a stream more and it does not", 1001, 200, 2.5, 2, false},
		{"nothing is worth nothing", 0, 200, 0, 0, false},
		{"fewer than nothing", -5, 200, 1, 0, false},
		{"less than no stream is none", 1001, 200, 5, -7, true},
		{"time does not run backwards", 1, 200, -5, 3, true},
		{"a time that is no number", 40_000, 200, math.NaN(), 0, false},
		{"without end", 40_000, 200, math.Inf(1), 0, false},
		{"of unknown speed it is as with a middling card", 40_000, 0, 1, 1, true},
		{"a speed that is no number is unknown", 40_000, math.NaN(), 1, 1, true},
	} {
		if got := route.SavePays(c.tokens, c.prefill, c.seconds, c.decoding); got != c.pays {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
