package mesh_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"viiwork/appliance/mesh"
)

// anyReport is a report with a few models, all figures drawn by r.
func anyReport(r *rand.Rand, seq uint64) *mesh.Report {
	rep := &mesh.Report{Wire: mesh.Wire, ID: "n02", Name: "b", Version: "2", Epoch: 1, Seq: seq, Draining: r.IntN(20) == 0, Models: []mesh.Model{}}
	for i := range 1 + r.IntN(3) {
		m := mesh.Model{Name: fmt.Sprint("m", i), Context: 8192, Waiting: r.IntN(3), Score: float64(r.IntN(2)), Output: float64(r.IntN(2)), ThinkMS: r.Int64N(2), Backends: []mesh.Backend{}}
		if r.IntN(2) == 0 {
			m.KV = &mesh.KV{Kind: "k", SaveBPS: float64(r.IntN(2))}
		}
		for j := range 2 {
			b := mesh.Backend{ID: fmt.Sprint("m", i, "#", j), Slots: 4, Free: r.IntN(5), Ready: r.IntN(4) > 0, Loading: r.IntN(9) == 0}
			if r.IntN(3) == 0 {
				b.Slowdown = float64(r.IntN(2))
				b.Waiting, b.Outstanding, b.Decoding, b.FreeInMS, b.Residents, b.Idle = r.IntN(2), r.IntN(2), r.IntN(2), r.Int64N(2), r.IntN(2), r.IntN(2)
			}
			if rate := float64(r.IntN(3)); rate > 0 {
				b.PrefillTPS = &rate
			}
			m.Backends = append(m.Backends, b)
		}
		rep.Models = append(rep.Models, m)
	}
	return rep
}

func TestChangesAddUpToTheReport(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var there *mesh.Report
	was, changes := (*mesh.Report)(nil), 0
	for seq := range uint64(2000) {
		now := anyReport(r, seq+1)
		line := mesh.Encode(now, nil)
		if was != nil {
			if c, ok := mesh.Diff(was, now); ok {
				changes++
				line = mesh.Encode(nil, c)
			}
		}
		before, _ := json.Marshal(there)
		got, err := mesh.ReadLine(line, there)
		if err != nil || !reflect.DeepEqual(got, now) {
			t.Fatalf("after %s\n%s\ngot %+v, %v", before, line, got, err)
		}
		if after, _ := json.Marshal(there); string(after) != string(before) {
			t.Fatal("the report before was changed")
		}
		was, there = now, got
	}
	if changes < 200 {
		t.Fatalf("only %d changes", changes)
	}
}

func TestOneSlotIsASmallChange(t *testing.T) {
	was := anyReport(rand.New(rand.NewPCG(1, 2)), 1)
	raw, _ := json.Marshal(was)
	var now mesh.Report
	_ = json.Unmarshal(raw, &now)
	now.Seq = 2
	now.Models[0].Backends[1].Outstanding, now.Models[0].Backends[1].Residents = 12_544, 2
	now.Models[0].Backends[1].Free = (now.Models[0].Backends[1].Free + 1) % 5
	c, ok := mesh.Diff(was, &now)
	if !ok || mesh.Parts(c) != 1 {
		t.Fatal("not a small change")
	}
	if n := len(mesh.Encode(nil, c)); n > 250 {
		t.Errorf("%d bytes: %s", n, mesh.Encode(nil, c))
	}
}

func TestLineMissingIsNoticed(t *testing.T) {
	r, err := mesh.ReadLine([]byte(`{"report":`+report(4)+`}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, line := range map[string]string{
		"change skipped":  `{"change":{"seq":3,"models":[]}}`,
		"change again":    `{"change":{"seq":1,"models":[]}}`,
		"beat of another": `{"beat":{"seq":2}}`,
		"unknown model":   `{"change":{"seq":2,"models":[{"name":"x"}]}}`,
		"unknown backend": `{"change":{"seq":2,"models":[{"name":"m","backends":[{"id":"x"}]}]}}`,
		"too slow":        `{"change":{"seq":2,"models":[{"name":"m","backends":[{"id":"m#0","slots":1,"slowdown":-1}]}]}}`,
		"too long":        `{"change":{"seq":2,"models":[{"name":"m","think_ms":-1}]}}`,
		"too late":        `{"change":{"seq":2,"models":[{"name":"m","backends":[{"id":"m#0","slots":1,"free_in_ms":-1}]}]}}`,
		"too free":        `{"change":{"seq":2,"models":[{"name":"m","backends":[{"id":"m#0","slots":1,"free":2}]}]}}`,
		"empty":           `{}`,
	} {
		if _, err := mesh.ReadLine([]byte(line), r); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzReadLine(f *testing.F) {
	f.Add([]byte(`{"report":` + report(4) + `}`))
	f.Add([]byte(`{"change":{"seq":2,"models":[{"name":"m","waiting":1,"backends":[{"id":"m#0","slots":4,"free":1,"ready":true}]}]}}`))
	f.Add([]byte(`{"beat":{"seq":1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		was, err := mesh.ReadReport([]byte(report(4)))
		if err != nil {
			t.Fatal(err)
		}
		for _, before := range []*mesh.Report{nil, was} {
			now, err := mesh.ReadLine(data, before)
			if err != nil {
				continue
			}
			for _, m := range now.Models {
				if slots, free := m.Slots(); free < 0 || free > slots || slots > 64*1024 {
					t.Fatalf("%d of %d free", free, slots)
				}
			}
			if len(now.Models) > 256 {
				t.Fatal("out of bounds")
			}
			if _, err := json.Marshal(now); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = mesh.ReadReport(data)
	})
}
