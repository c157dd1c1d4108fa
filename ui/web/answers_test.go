package web_test

import (
	"strings"
	"testing"

	"viiwork/appliance/status"
	"viiwork/ui/web"
)

// TestAColdStartIsExplained by what the engines were known to hold; one that was warm, or rewritten, is not.
func TestAColdStartIsExplained(t *testing.T) {
	held := func(attic, cellar int) status.Request {
		return status.Request{Plan: &status.Plan{Policy: "cost", PromptTokens: 10000, Chosen: status.Chosen{Node: "cellar", Backend: "m#0"}, Candidates: []status.Candidate{
			{Node: "cellar", Backend: "m#0", Held: cellar, Total: 4, Terms: status.Terms{Prefill: 4}}, {Node: "attic", Backend: "m#0", Held: attic, Total: 9, Terms: status.Terms{Queue: 8}},
		}}}
	}
	rewritten, first := held(0, 0), held(9000, 0)
	rewritten.Compacted, first.Plan.Chosen = true, status.Chosen{}
	for name, c := range map[string]struct {
		r     status.Request
		class string
		want  string
	}{
		"new":        {held(0, 20), "cold", "no engine was known to hold more than 20 of its 10000 tokens"},
		"none":       {held(0, 0), "cold", "no engine was known to hold any of its 10000 tokens"},
		"alike":      {held(0, 0), "partly", "a beginning that it shares with others"},
		"left":       {held(9000, 0), "cold", "attic held 9000 of its 10000 tokens and was dearer all the same (9.0 s to 4.0 s), mostly for waiting for a slot"},
		"mistaken":   {held(0, 9000), "partly", "cellar was thought to hold 9000 of its 10000 tokens"},
		"whoever":    {first, "cold", "another slot was free sooner"},
		"warm":       {held(0, 9000), "warm", ""},
		"rewritten":  {rewritten, "cold", ""},
		"no plan":    {status.Request{}, "cold", ""},
		"no figures": {status.Request{Plan: &status.Plan{Candidates: []status.Candidate{{Node: "attic"}}}}, "cold", ""},
	} {
		if got := web.WhyCold(c.r, c.class); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestThePageOfCachesAnswersWhetherTheyPay, and says so where it cannot know.
func TestThePageOfCachesAnswersWhetherTheyPay(t *testing.T) {
	told := func(warm, cold, proved, failed int) status.Board {
		kv := status.BoardMoves{Key: "m", KVModel: status.KVModel{Saves: 3, StallSeconds: 1.5}}
		kv.Warm, kv.Cold = warm, cold
		return status.Board{Moves: []status.BoardMoves{kv}, Pairs: []status.BoardPair{{Key: "p", KVPair: status.KVPair{Proved: proved, Failed: failed}}}}
	}
	for want, b := range map[string]status.Board{
		"Too few": told(2, 1, 2, 0), "It pays": told(9, 2, 9, 1), "It does not": told(2, 9, 1, 4), "Nothing has": told(0, 9, 0, 0),
	} {
		if got, _ := web.Worth(b); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if _, why := web.Worth(told(9, 2, 9, 1)); !strings.Contains(why, "Of 11 turns that changed their machine 9 began warm, 0 partly and 2 cold; 9 imports were used and 1 wasted; for 3 saves engines stood still 1.5 s") {
		t.Error(why)
	}
}

// TestTheCheapestIsNotAlwaysChosen, and the page says why.
func TestTheCheapestIsNotAlwaysChosen(t *testing.T) {
	plan := func(chosen string, free int) status.Request {
		return status.Request{Plan: &status.Plan{Chosen: status.Chosen{Node: chosen}, Candidates: []status.Candidate{{Node: "attic"}, {Node: "cellar", Free: free}}}}
	}
	for want, r := range map[string]status.Request{
		"": plan("attic", 1), "had a free slot and the cheapest had none": plan("cellar", 1), "leaves it only to save": plan("cellar", 0),
	} {
		if got := web.Dearer(r); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
