package route_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"viiwork/appliance/route"
)

// node has one backend of four slots.
func node(id string, free int, change ...func(*route.Node)) route.Node {
	n := route.Node{ID: id, Name: "name-" + id, Local: id == "self", Backends: []route.Backend{{ID: "m#0", Ready: true, Slots: 4, Free: free}}}
	for _, f := range change {
		f(&n)
	}
	return n
}

func stale(n *route.Node)       { n.Stale = true }
func quarantined(n *route.Node) { n.Quarantined = true }
func draining(n *route.Node)    { n.Draining = true }
func refused(n *route.Node)     { n.Full = true }
func loading(n *route.Node)     { n.Backends[0].Ready = false }
func lineFull(n *route.Node)    { n.LineFull = true }
func waiting(k int) func(*route.Node) {
	return func(n *route.Node) { n.Waiting = k }
}
func holds(seconds int) func(*route.Node) {
	return func(n *route.Node) { n.Hold = time.Duration(seconds) * time.Second }
}
func ahead(k int) func(*route.Node) {
	return func(n *route.Node) { n.Ahead = k }
}

func TestPick(t *testing.T) {
	type nodes = []route.Node
	for _, c := range []struct {
		name  string
		nodes nodes
		ask   route.Request
		want  route.Plan
	}{
		{"nobody has it", nil, route.Request{}, route.Plan{}},
		{"one backend in the mesh", nodes{node("a", 1)}, route.Request{}, route.Plan{Node: "a", Reason: route.Only}},
		{"the local free slot first", nodes{node("a", 4), node("self", 1)}, route.Request{}, route.Plan{Node: "self", Local: true, Reason: route.Cold}},
		{"else most free slots", nodes{node("a", 2), node("b", 3), node("self", 0)}, route.Request{}, route.Plan{Node: "b", Reason: route.Cold}},
		{"what is on its way counts", nodes{node("a", 2), node("b", 3, ahead(2))}, route.Request{}, route.Plan{Node: "a", Reason: route.Cold}},
		{"on their way more than free", nodes{node("a", 2, ahead(3)), node("b", 0, waiting(1))}, route.Request{}, route.Plan{Node: "a", Wait: true, Reason: route.Cold}},
		{"equals take turns: 0", nodes{node("a", 2), node("b", 2), node("c", 1)}, route.Request{Seed: 0}, route.Plan{Node: "a", Reason: route.Cold}},
		{"equals take turns: 1", nodes{node("a", 2), node("b", 2), node("c", 1)}, route.Request{Seed: 1}, route.Plan{Node: "b", Reason: route.Cold}},
		{"equals take turns: 2", nodes{node("a", 2), node("b", 2), node("c", 1)}, route.Request{Seed: 2}, route.Plan{Node: "a", Reason: route.Cold}},
		{"the home among equals", nodes{node("a", 2), node("b", 2)}, route.Request{Home: "b"}, route.Plan{Node: "b", Reason: route.Home}},
		{"the home is no pin", nodes{node("a", 3), node("b", 0)}, route.Request{Home: "b"}, route.Plan{Node: "a", Reason: route.Move}},
		{"preferred before local, in order", nodes{node("a", 1), node("b", 4), node("self", 4)}, route.Request{Prefer: []string{"name-x", "name-a", "name-b"}}, route.Plan{Node: "a", Reason: route.Cold}},
		{"preferred is full: as if not asked", nodes{node("a", 0), node("b", 4)}, route.Request{Prefer: []string{"name-a"}}, route.Plan{Node: "b", Reason: route.Cold}},
		{"pinned", nodes{node("a", 1), node("self", 4)}, route.Request{Host: "a", Prefer: []string{"name-self"}}, route.Plan{Node: "a", Reason: route.Pinned}},
		{"pinned and full: waits for that node", nodes{node("a", 0), node("b", 4)}, route.Request{Host: "a"}, route.Plan{Node: "a", Wait: true, Reason: route.Pinned}},
		{"pinned to who does not serve", nodes{node("a", 4, draining), node("b", 4)}, route.Request{Host: "a"}, route.Plan{}},
		{"all full: in its own line", nodes{node("a", 0), node("self", 0)}, route.Request{}, route.Plan{Node: "self", Local: true, Wait: true, Reason: route.Cold}},
		{"in the shorter line", nodes{node("a", 0, waiting(1)), node("self", 0, waiting(2))}, route.Request{}, route.Plan{Node: "a", Wait: true, Reason: route.Cold}},
		{"in the quicker line", nodes{node("a", 0, waiting(4), holds(2)), node("b", 0, waiting(2), holds(9))}, route.Request{}, route.Plan{Node: "a", Wait: true, Reason: route.Cold}},
		{"who has not told is like the others", nodes{node("a", 0, waiting(1), holds(20)), node("b", 0, waiting(2))}, route.Request{}, route.Plan{Node: "a", Wait: true, Reason: route.Cold}},
		{"at its home, if it is the one and it costs little more", nodes{node("a", 0), node("b", 0)}, route.Request{Home: "b"}, route.Plan{Node: "b", Wait: true, Reason: route.Wait}},
		{"but not however long", nodes{node("a", 0), node("b", 0, waiting(9))}, route.Request{Home: "b"}, route.Plan{Node: "a", Wait: true, Reason: route.Move}},
		{"not in a line that is full", nodes{node("a", 0, waiting(9)), node("b", 0, lineFull)}, route.Request{Home: "b"}, route.Plan{Node: "a", Wait: true, Reason: route.Move}},
		{"equal lines take turns", nodes{node("a", 0), node("b", 0)}, route.Request{Seed: 1}, route.Plan{Node: "b", Wait: true, Reason: route.Cold}},
		{"all lines full", nodes{node("a", 0, lineFull)}, route.Request{}, route.Plan{Wait: true, Reason: route.Wait}},
		{"stale", nodes{node("a", 4, stale)}, route.Request{}, route.Plan{}},
		{"in quarantine", nodes{node("a", 4, quarantined)}, route.Request{}, route.Plan{}},
		{"draining", nodes{node("a", 4, draining)}, route.Request{}, route.Plan{}},
		{"not ready", nodes{node("a", 4, loading)}, route.Request{}, route.Plan{}},
		{"has refused: full until it speaks", nodes{node("a", 4, refused)}, route.Request{}, route.Plan{Node: "a", Wait: true, Reason: route.Only}},
		{"tried", nodes{node("a", 4), node("b", 1)}, route.Request{Tried: []string{"a"}}, route.Plan{Node: "b", Reason: route.Only}},
		{"all tried", nodes{node("a", 4)}, route.Request{Tried: []string{"a"}}, route.Plan{}},
	} {
		if got := short(route.Pick(route.Snapshot{Nodes: c.nodes}, c.ask)); got != short(c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// outcome is a plan without its explanation.
type outcome struct {
	node, backend string
	local, wait   bool
	reason, fetch route.Reason
	from          string
}

func whole(p route.Plan) outcome {
	return outcome{p.Node, p.Backend, p.Local, p.Wait, p.Reason, p.Fetch, p.From}
}

// short leaves the backend out too.
func short(p route.Plan) outcome {
	o := whole(p)
	o.backend = ""
	return o
}

// TestPickKeepsItsPromises looks at 40,000 meshes of any kind.
func TestPickKeepsItsPromises(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	seen := map[route.Reason]int{}
	for range 40_000 {
		s, r := anyMesh(rng), anyRequest(rng)
		p := route.Pick(s, r)
		seen[p.Reason]++
		if err := judge(s, r, p); err != nil {
			t.Fatalf("%v\nmesh %+v\nrequest %+v\nplan %+v", err, s, r, p)
		}
		if again := route.Pick(s, r); whole(again) != whole(p) {
			t.Fatalf("the same question has two answers: %+v and %+v", p, again)
		}
	}
	for _, reason := range []route.Reason{"", route.Only, route.Pinned, route.Home, route.Move, route.Cold, route.Wait} {
		if seen[reason] == 0 {
			t.Errorf("reason %q never came up", reason)
		}
	}
}

// TestAffinityIsAPreferenceNeverAPin: wherever a conversation was at home, it is served if anybody can serve it; a home that
// takes no requests is as none; and who has waited too long leaves.
func TestAffinityIsAPreferenceNeverAPin(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 17))
	homeless := 0
	for range 20_000 {
		s, r := anyMesh(rng), anyRequest(rng)
		r.Home, r.HomeBackend = fmt.Sprint(rng.IntN(6)), ""
		s.Cache = route.Cache{} // one that takes nothing may still have a cache to give away
		without := r
		without.Home = ""
		p, q := route.Pick(s, r), route.Pick(s, without)
		if p.None() != q.None() {
			t.Fatalf("at home %+v, else %+v\nmesh %+v\nrequest %+v", p, q, s, r)
		}
		if at := slices.IndexFunc(s.Nodes, func(n route.Node) bool { return n.ID == r.Home }); at >= 0 && s.Nodes[at].Serves() && !slices.Contains(r.Tried, r.Home) {
			continue
		}
		homeless++
		if p.Node != q.Node || p.Backend != q.Backend || p.Wait != q.Wait {
			t.Fatalf("with a home that takes nothing %+v, without %+v\nmesh %+v\nrequest %+v", p, q, s, r)
		}
	}
	if homeless < 1000 {
		t.Errorf("only %d homes took nothing", homeless)
	}
	full := node("a", 0, waiting(1000))
	full.Backends[0].Held = 40_000
	if p := route.Pick(route.Snapshot{Nodes: []route.Node{full, node("b", 1)}}, route.Request{Home: "a", Prompt: 40_000}); p.Node != "b" || p.Wait {
		t.Errorf("it waits for a home that a thousand wait for: %+v", p)
	}
}

func anyMesh(rng *rand.Rand) (s route.Snapshot) {
	flag := func() bool { return rng.IntN(6) == 0 }
	for i := range rng.IntN(6) {
		n := route.Node{ID: fmt.Sprint(i), Name: fmt.Sprint("n", i), Local: i == 0, Stale: flag(), Quarantined: flag(), Draining: flag(), Full: flag(), LineFull: flag(), Ahead: rng.IntN(3), Waiting: rng.IntN(4)}
		for b := range rng.IntN(3) {
			slots := rng.IntN(4)
			n.Backends = append(n.Backends, route.Backend{ID: fmt.Sprint(b), Ready: !flag(), Slots: slots, Free: rng.IntN(slots + 1)})
		}
		s.Nodes = append(s.Nodes, n)
	}
	if rng.IntN(3) > 0 {
		measure(&s, func() float64 { return math.Exp(rng.NormFloat64() * 4) })
	}
	if rng.IntN(4) == 0 {
		measure(&s, func() float64 { return nonsense[rng.IntN(len(nonsense))] })
	}
	return s
}

// nonsense is what a member may tell that lies, or whose clock went back.
var nonsense = []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 1e-300, 1e18}

// measure fills in all figures that are not needed to place a request.
func measure(s *route.Snapshot, figure func() float64) {
	whole := func() int {
		if f := figure(); f > -1e15 && f < 1e15 {
			return int(f)
		}
		return math.MaxInt
	}
	some := func() time.Duration { return time.Duration(whole()) }
	s.Output, s.Think, s.Cache = figure(), some(), route.Cache{TokenBytes: figure(), StateBytes: figure(), ImportRate: figure(), ImportStart: figure(), PullStart: figure(), SaveRate: figure()}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.Hold, n.RTT, n.Score, n.Replica, n.Unsaved, n.Link, n.Sending = some(), some(), figure(), whole(), whole(), figure(), some()
		for j := range n.Backends {
			b := &n.Backends[j]
			b.Prefill, b.Decode, b.Slowdown, b.FreeIn = figure(), figure(), figure(), some()
			b.Waiting, b.Outstanding, b.Decoding, b.Residents, b.Idle, b.Held = whole(), whole(), whole(), whole(), whole(), whole()
		}
	}
}

func anyRequest(rng *rand.Rand) (r route.Request) {
	if rng.IntN(5) == 0 {
		r.Host = fmt.Sprint(rng.IntN(6))
	}
	if rng.IntN(2) == 0 {
		r.Home = fmt.Sprint(rng.IntN(6))
	}
	for range rng.IntN(3) {
		r.Prefer = append(r.Prefer, fmt.Sprint("n", rng.IntN(7)))
	}
	for range rng.IntN(3) {
		r.Tried = append(r.Tried, fmt.Sprint(rng.IntN(6)))
	}
	if r.Home != "" && rng.IntN(2) == 0 {
		r.HomeBackend = fmt.Sprint(rng.IntN(3))
	}
	if rng.IntN(3) == 0 {
		r.Policy = route.Classic
	}
	if rng.IntN(4) == 0 {
		r.Stands, r.Place = fmt.Sprint(rng.IntN(6)), rng.IntN(5)-1
	}
	r.Forget, r.Flat = rng.IntN(8) == 0, rng.IntN(8) == 0
	r.Prompt = []int{0, 300, 40_000, -1, math.MaxInt, math.MinInt}[rng.IntN(6)]
	r.Left = time.Duration(rng.IntN(3)) * time.Second
	r.Seed = rng.Uint64()
	return r
}

// judge says which promise a plan breaks.
func judge(s route.Snapshot, r route.Request, p route.Plan) error {
	may := func(n route.Node) bool {
		return !n.Stale && !n.Quarantined && !n.Draining && slices.ContainsFunc(n.Backends, func(b route.Backend) bool { return b.Ready }) &&
			!slices.Contains(r.Tried, n.ID) && (r.Host == "" || r.Host == n.ID)
	}
	room := func(n route.Node) int {
		free := -n.Ahead
		for _, b := range n.Backends {
			if b.Ready {
				free += b.Free
			}
		}
		if !may(n) || n.Full {
			return 0
		}
		return max(0, free)
	}
	var chosen *route.Node
	most, could := 0, false
	for i, n := range s.Nodes {
		most, could = max(most, room(n)), could || may(n)
		if n.ID == p.Node {
			chosen = &s.Nodes[i]
		}
	}
	preferred := func(n route.Node) bool { return room(n) > 0 && slices.Contains(r.Prefer, n.Name) }
	switch {
	case !could && !p.None():
		return fmt.Errorf("nobody may take it, and yet there is a plan")
	case could && p.None():
		return fmt.Errorf("somebody may take it, and there is no plan")
	case p.None():
		return nil
	case p.Wait && most > 0 && (p.Node == "" || p.Node != r.Home || r.Forget || r.Policy == route.Classic):
		return fmt.Errorf("it waits elsewhere than at its home although a slot is free")
	case p.Wait && p.Node != "" && (chosen == nil || !may(*chosen) || chosen.LineFull && r.Stands != p.Node):
		return fmt.Errorf("it waits where it cannot")
	case p.Wait && p.Node == "" && r.Policy != route.Classic && slices.ContainsFunc(s.Nodes, func(n route.Node) bool { return may(n) && !n.LineFull }):
		return fmt.Errorf("it stands in no line although one takes it")
	case p.Wait && p.Fetch != "":
		return fmt.Errorf("it fetches a cache without a slot")
	case chosen == nil && p.Node != "":
		return fmt.Errorf("there is no such node")
	case chosen != nil && p.Local != chosen.Local:
		return fmt.Errorf("local is wrong")
	case !p.Wait && slices.ContainsFunc(s.Nodes, preferred) && !preferred(*chosen):
		return fmt.Errorf("a preferred node goes first")
	case !p.Wait && room(*chosen) == 0:
		return fmt.Errorf("the node has no room")
	}
	if bare(s) && r.Policy != route.Classic && !p.Wait && !preferred(*chosen) && chosen.ID != r.Home && !chosen.Local {
		if room(*chosen) < most {
			return fmt.Errorf("another has more room")
		}
		if at := slices.IndexFunc(s.Nodes, func(n route.Node) bool { return n.Local && room(n) > 0 }); at >= 0 {
			return fmt.Errorf("this node goes first")
		}
	}
	return judgeBackend(r, p, chosen)
}

// bare tells whether nothing is known but slots: then free slots are all there is to go by.
func bare(s route.Snapshot) bool {
	for _, n := range s.Nodes {
		if n.Hold != 0 || n.RTT != 0 {
			return false
		}
		for _, b := range n.Backends {
			if b != (route.Backend{ID: b.ID, Ready: b.Ready, Slots: b.Slots, Free: b.Free}) {
				return false
			}
		}
	}
	return s.Output == 0 && s.Think == 0
}

func judgeBackend(r route.Request, p route.Plan, n *route.Node) error {
	if p.Backend != "" || !p.Wait {
		at := slices.IndexFunc(n.Backends, func(b route.Backend) bool { return b.ID == p.Backend })
		switch {
		case at < 0 || !n.Backends[at].Ready:
			return fmt.Errorf("the backend is not there")
		case !p.Wait && n.Backends[at].Free == 0:
			return fmt.Errorf("the backend has no room")
		}
	}
	for _, c := range p.Candidates {
		if math.IsNaN(c.Total) || math.IsInf(c.Total, 0) || c.Total < 0 {
			return fmt.Errorf("a cost of %v", c.Total)
		}
		for _, term := range []float64{c.Prefill, c.Decode, c.Stall, c.Shadow, c.Queue, c.Load, c.Reserve, c.RTT} {
			if !(term >= 0) {
				return fmt.Errorf("a term of %v", term)
			}
		}
	}
	return nil
}
