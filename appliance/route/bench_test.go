package route_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"viiwork/appliance/route"
)

// fleet is a mesh at work: so many backends on nodes of four.
func fleet(backends int) route.Snapshot {
	rng := rand.New(rand.NewPCG(3, 5))
	var s route.Snapshot
	for i := range (backends + 3) / 4 {
		n := route.Node{ID: fmt.Sprintf("n%05d", i), Name: fmt.Sprint("name", i), Local: i == 0, Waiting: rng.IntN(3), Score: rng.Float64(), Replica: rng.IntN(2) * 30_000, Link: 1e8}
		for j := range min(4, backends-4*i) {
			n.Backends = append(n.Backends, route.Backend{
				ID: fmt.Sprint("m#", j), Ready: true, Slots: 4, Free: rng.IntN(3), Prefill: 200 + rng.Float64()*2000, Decode: 20, Slowdown: 0.2,
				Outstanding: rng.IntN(9000), Decoding: rng.IntN(4), Residents: rng.IntN(8), Idle: rng.IntN(4), Held: rng.IntN(2) * 5888,
			})
		}
		s.Nodes = append(s.Nodes, n)
	}
	s.Cache = route.Cache{TokenBytes: 65536, StateBytes: 150 << 20, ImportRate: 1e9}
	return s
}

func BenchmarkPick(b *testing.B) {
	for _, policy := range []route.Policy{route.Cost, route.Classic} {
		for _, backends := range []int{16, 1000} {
			s := fleet(backends)
			b.Run(fmt.Sprintf("%s/%d", policy, backends), func(b *testing.B) {
				r := route.Request{Policy: policy, Prompt: 40_000, Home: "n00002", HomeBackend: "m#1"}
				b.ReportAllocs()
				for b.Loop() {
					r.Seed++
					route.Pick(s, r)
				}
			})
		}
	}
}

// BenchmarkPickCrowded is Pick where as many sessions live at each backend as are still counted one by one.
func BenchmarkPickCrowded(b *testing.B) {
	s := fleet(1000)
	for i := range s.Nodes {
		for j := range s.Nodes[i].Backends {
			s.Nodes[i].Backends[j].Residents = 45 + (i+j)%3
		}
	}
	r := route.Request{Policy: route.Cost, Prompt: 40_000, Home: "n00002", HomeBackend: "m#1"}
	b.ReportAllocs()
	for b.Loop() {
		r.Seed++
		route.Pick(s, r)
	}
}

// TestPickAllocatesThePlanAlone: it runs for every request, and twice a second for those that wait.
func TestPickAllocatesThePlanAlone(t *testing.T) {
	s := fleet(1000)
	for policy, want := range map[route.Policy]float64{route.Cost: 1, route.Classic: 0} {
		r := route.Request{Policy: policy, Prompt: 40_000, Home: "n00002", HomeBackend: "m#1", Prefer: []string{"nobody"}, Tried: []string{"n00001"}}
		if got := testing.AllocsPerRun(20, func() { route.Pick(s, r) }); got > want {
			t.Errorf("%s: %v allocations, want %v", policy, got, want)
		}
	}
}
