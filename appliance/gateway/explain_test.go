package gateway_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"viiwork/appliance/gateway"
	"viiwork/appliance/route"
	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
)

// plan is what a node tells of one request.
func (n *node) plan(id string) (row status.Request) {
	n.t.Helper()
	r := n.do("GET", "/api/requests/"+id, "")
	if r.into(&row); r.status != 200 {
		n.t.Fatalf("%d %s", r.status, r.body)
	}
	return row
}

// TestAPlanExplainsItself: at the entry each request tells what each backend would have cost, and the headers say what it
// came to; when to expect the first token is told once a rate was measured.
func TestAPlanExplainsItself(t *testing.T) {
	t.Parallel()
	specs := []spec{{change: patient}}
	for range 2 {
		f := fake(t, enginetest.Options{Slots: 2, PrefillTPS: 4000, DecodeTPS: 1000})
		specs = append(specs, spec{models: model("m", 2, f.URL()), change: patient})
	}
	fl := newFleet(t, nil, specs...)
	a := fl.peers[0]
	c := newTalk(t, "talk", true, 3000)
	for turn, reason := range []string{"cold", "home"} {
		for _, owner := range fl.peers[1:] { // what a turn has left may be known before its slot is free again
			a.seesFree(owner.ID, "m", 2)
		}
		c.turn(&a.node)
		c.known(fl.peers...)
		row := a.plan(a.g.Requests(1)[0].ID)
		p := row.Plan
		if p == nil || p.Policy != "cost" || len(p.Candidates) != 2 || p.PromptTokens < 500 {
			t.Fatalf("%+v", p)
		}
		if at := p.Chosen.Node + " " + p.Chosen.Backend; at != c.at || p.Chosen.Reason != reason || row.Reason != reason || p.Chosen.Wait {
			t.Errorf("chosen %+v; it ran at %s, as %s, want %s", p.Chosen, c.at, row.Reason, reason)
		}
		for _, x := range p.Candidates {
			y := x.Terms
			if sum := y.Prefill + y.Decode + y.Stall + y.Shadow + y.Queue + y.Load + y.Reserve + y.RTT; math.Abs(sum-x.Total) > 1e-9 || sum <= 0 {
				t.Errorf("the terms of %+v are %v together", x, sum)
			}
			home := x.Node == p.Chosen.Node
			if travelled := y.RTT > 0.3; y.RTT < 0.3 || home && turn > 0 && !travelled {
				t.Errorf("turn %d: the way to %s costs %v", turn, x.Node, y.RTT)
			}
			if x.Free != 2 || (x.Held > 0) != (home && turn > 0) || x.Measured != (home && turn > 0) {
				t.Errorf("turn %d: %+v", turn, x)
			}
		}
		first := p.Candidates[0]
		if first.Total > p.Candidates[1].Total || turn > 0 && first.Node != p.Chosen.Node {
			t.Errorf("not in order: %+v", p.Candidates)
		}
		if known := row.PredictedTTFTMS != nil; known != (turn > 0) {
			t.Errorf("turn %d: predicted %v", turn, row.PredictedTTFTMS)
		} else if known && (*row.PredictedTTFTMS <= 1000*first.Terms.Prefill || *row.PredictedTTFTMS > 60_000) {
			t.Errorf("predicted %v of %+v", *row.PredictedTTFTMS, first)
		}
		for _, owner := range fl.peers[1:] {
			if owner.Name == p.Chosen.Node && owner.plan(row.ID).Plan != nil {
				t.Error("its owner tells a plan, which it did not make")
			}
		}
	}
	if list := a.do("GET", "/api/requests", ""); bytes.Contains(list.body, []byte(`"plan"`)) {
		t.Errorf("the list tells plans: %s", list.body)
	}
}

// TestAWaitExplainsItself: where, and of a policy without prices that there are none.
func TestAWaitExplainsItself(t *testing.T) {
	t.Parallel()
	for _, policy := range []route.Policy{route.Cost, route.Classic} {
		f := fake(t, enginetest.Options{Slots: 1, DecodeTPS: 15})
		n := start(t, model("m", 1, f.URL()), patient, func(c *gateway.Config) { c.Policy = policy }).ready()
		gone := n.leaving("/v1/chat/completions", long("m", "busy")+`,"stream":true}`, "busy")
		n.row("busy", "generating")
		leave := n.leaving("/v1/chat/completions", chat("m", "hi", ""), "w")
		n.until("it waits", func() bool { return n.row("w", "queued").WaitsAt == "one" })
		p := n.plan(n.row("w", "queued").ID).Plan
		want := map[route.Policy]string{route.Cost: "one", route.Classic: ""}[policy]
		if p == nil || p.Policy != string(policy) || !p.Chosen.Wait || p.Chosen.Node != want || len(p.Candidates) != len(want)/3 {
			t.Errorf("%s: %+v", policy, p)
		}
		leave()
		gone()
	}
}

// TestAPlanIsBounded: of a mesh of a thousand nodes some are told, the chosen one among them.
func TestAPlanIsBounded(t *testing.T) {
	s := route.Snapshot{}
	for i := range 1000 {
		name := fmt.Sprint("n", i)
		s.Nodes = append(s.Nodes, route.Node{ID: name, Name: name, Backends: []route.Backend{{ID: "m#0", Ready: true, Slots: 1, Free: 1}}})
	}
	home := &s.Nodes[999] // dearer than all others, but not by so much that it is left
	home.Backends[0].Outstanding, home.Backends[0].Residents = 100, 1
	p := route.Pick(s, route.Request{Prompt: 1000, Home: "n999", HomeBackend: "m#0"})
	if p.Node != "n999" || len(p.Candidates) != 1000 {
		t.Fatalf("%s of %d", p.Node, len(p.Candidates))
	}
	kept := gateway.Kept(p)
	if len(kept) > 32 || !slices.ContainsFunc(kept, func(c route.Candidate) bool { return c.Node == p.Node }) {
		t.Errorf("%d are kept: %+v", len(kept), kept)
	}
}
