package appliance_test

import (
	"testing"

	"viiwork/appliance"
	"viiwork/appliance/status"
)

// TestASlowMachineIsMarked among those with the same model and kind of start, over enough requests, and by a margin that
// somebody would feel.
func TestASlowMachineIsMarked(t *testing.T) {
	first := func(host, class string, n int, ms float64) status.BoardFirst {
		return status.BoardFirst{Model: "m", Host: host, Class: class, Hour: n, Hour50: &ms}
	}
	all := []status.BoardFirst{
		first("attic", "cold", 50, 4600), first("cellar", "cold", 40, 5000), first("desk", "cold", 9, 17600), first("shed", "cold", 4, 90000),
		first("attic", "warm", 50, 40), first("cellar", "warm", 50, 200), // five times as long, and nobody feels it
		first("desk", "partly", 50, 9000), {Model: "m", Host: "attic", Class: "partly"},
	}
	appliance.MarkSlow(all)
	for _, f := range all {
		if want := f.Host == "desk" && f.Class == "cold"; f.Slow != want {
			t.Errorf("%s, %s: slow %v", f.Host, f.Class, f.Slow)
		}
	}
}

// TestWhoWaitsIsTold before anything of theirs has ended.
func TestWhoWaitsIsTold(t *testing.T) {
	var all []status.BoardRequest
	for _, state := range []string{"queued", "queued", "prefill", "generating", "done"} {
		all = append(all, status.BoardRequest{Live: state != "done", State: state, Entry: "attic", From: "10.0.0.7"})
	}
	all = append(all, status.BoardRequest{Live: true, State: "queued", Entry: "attic"}) // its entry has not told of it yet
	uses := appliance.Uses(all)
	if len(uses) != 1 || uses[0].Origin != "10.0.0.7" || uses[0].Window != "today" || *uses[0].Waiting != 2 || *uses[0].Running != 2 {
		t.Errorf("%+v", uses)
	}
}

// TestACardAtItsLimitIsHeldBack, and one that does not tell is not said to be. What the driver says itself counts more.
func TestACardAtItsLimitIsHeldBack(t *testing.T) {
	limit, most, less, none := 350.0, 346.0, 300.0, 0.0
	yes, no := true, false
	for i, c := range []struct {
		card        status.GPU
		capped, hot bool
	}{
		{status.GPU{Watts: &most, CapWatts: &limit}, true, false},
		{status.GPU{Watts: &less, CapWatts: &limit}, false, false},
		{status.GPU{CapWatts: &limit}, false, false},
		{status.GPU{Watts: &most}, false, false},
		{status.GPU{Watts: &most, CapWatts: &none}, false, false},
		{status.GPU{Watts: &most, CapWatts: &limit, ByPower: &no, ByHeat: &yes}, false, true},
		{status.GPU{Watts: &less, CapWatts: &limit, ByPower: &yes, ByHeat: &no}, true, false},
	} {
		if got := appliance.BoardCard(c.card); got.Capped != c.capped || got.Hot != c.hot {
			t.Errorf("%d: %+v", i, got)
		}
	}
}
