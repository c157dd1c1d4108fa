package gateway_test

import (
	"sync"
	"testing"

	"viiwork/appliance/gateway"
	"viiwork/engine/enginetest"
)

// TestABurstIsPlannedForOnce rather than by each for all: of some hundred that come at one moment each must get its answer
// at the cost of a few plans, or a node that is flooded does nothing but plan.
func TestABurstIsPlannedForOnce(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 1, DecodeTPS: 10})
	n := start(t, model("m", 1, f.URL()), func(c *gateway.Config) { c.QueueMax = -1 }).ready()
	gone := n.leaving("/v1/chat/completions", long("m", "busy")+`,"stream":true}`, "busy")
	defer gone()
	n.row("busy", "generating")
	const burst = 300
	resume := n.g.Pause()
	before := n.g.Plans()
	var wg sync.WaitGroup
	for range burst {
		wg.Go(func() {
			if r := n.post("/v1/chat/completions", chat("m", "hi", "")); r.status != 429 {
				t.Errorf("%d %.200s %v", r.status, r.body, r.err)
			}
		})
	}
	n.until("all have come", func() bool { return n.g.Inflight() == burst+1 })
	resume()
	wg.Wait()
	if made := n.g.Plans() - before; made > 10*burst {
		t.Errorf("%d plans were made for %d requests", made, burst)
	}
}
