package bench_test

import (
	"math"
	"strings"
	"testing"

	"viiwork/appliance/bench"
	"viiwork/appliance/status"
)

// TestWhereMovingPaysIsBetweenWhatWasMeasured, by a straight line.
func TestWhereMovingPaysIsBetweenWhatWasMeasured(t *testing.T) {
	type g = bench.Gain
	for _, c := range []struct {
		name    string
		gains   []bench.Gain
		verdict bench.Verdict
		pays    int
		says    string
	}{
		{"line", []g{{2000, 1, 2, "", false}, {8000, 4, 1, "", false}}, bench.Pays, 3500, "moving pays from about 3,500 tokens on (aa → bb)"},
		{"last bend", []g{{1000, 2, 1, "", false}, {2000, 1, 2, "", false}, {4000, 4, 2, "", false}}, bench.Pays, 2666, "moving pays from about 2,700 tokens on (aa → bb)"},
		{"all", []g{{2000, 2, 1, "", false}, {8000, 8, 2, "", false}}, bench.PaysAll, 2000, "moving pays from 2,000 tokens on, the fewest measured (aa → bb)"},
		{"none came below", []g{{2000, 1, 1.3, "pinned", false}, {8000, 8, 2, "", false}}, bench.Pays, 8000, "about 8,000 tokens"},
		{"noise below", []g{{2000, 1, 0.99, "", false}, {8000, 8, 2, "", false}}, bench.Pays, 8000, "about 8,000 tokens"},
		{"imported", []g{{32000, 99, 1, "import", false}}, bench.PaysAll, 32000, "from 32,000 tokens on"},
		{"slow link", []g{{2000, 1, 2, "", false}, {8000, 4, 9, "", false}}, bench.Never, 0, "never up to 8,000 tokens, recomputing is faster (aa → bb)"},
		{"only the short", []g{{2000, 2, 1, "", false}, {8000, 4, 9, "", false}}, bench.Never, 0, "never up to 8,000"},
		{"by their figures", []g{{2000, 1, 0.1, "pinned", false}}, bench.Never, 0, "the nodes move none"},
		{"fails", []g{{2000, 1, 2, "pinned", true}}, bench.Fails, 0, "the log of bb says why"},
		{"nothing", nil, bench.NotKnown, 0, "nothing was measured"},
	} {
		p := bench.Judge(c.gains...)
		if p.Verdict != c.verdict || p.Pays != c.pays || !strings.Contains(p.Says, c.says) {
			t.Errorf("%s: %s, %d, %q; want %s, %d, %q", c.name, p.Verdict, p.Pays, p.Says, c.verdict, c.pays, c.says)
		}
	}
}

// TestOnlyWhatCameBetweenTwoLooksCounts: of that conversation's home, or what the node itself had kept.
func TestOnlyWhatCameBetweenTwoLooksCounts(t *testing.T) {
	old := status.KVPair{From: "aa", To: "bb", Path: "mesh", Transfers: 3, Imports: 3, Proved: 3, Bytes: 500, FetchSeconds: 9, RestoreSeconds: 9}
	other := status.KVPair{From: "cc", To: "bb", Path: "mesh", Imports: 1, Bytes: 1 << 40}
	now := old
	now.Imports, now.Proved, now.Bytes, now.FetchSeconds = 5, 5, 2500, 10
	got := bench.ImportBetween(status.KV{Pairs: []status.KVPair{old}}, status.KV{Pairs: []status.KVPair{other, now}}, "aa", "bb")
	if want := (bench.KVImport{Fetch: 500, Bytes: 2000, Path: "mesh", Proved: true}); got == nil || *got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := bench.ImportBetween(status.KV{Pairs: []status.KVPair{old}}, status.KV{Pairs: []status.KVPair{old, other}}, "aa", "bb"); got != nil {
		t.Errorf("%+v where nothing came", got)
	}
	now = status.KVPair{From: "aa", To: "bb", Path: "none", Failed: 1}
	if got := bench.ImportBetween(status.KV{}, status.KV{Pairs: []status.KVPair{now}}, "aa", "bb"); got == nil || !got.Failed || got.Proved {
		t.Errorf("%+v of what failed", got)
	}
}

// TestHostileSumsAreNotBelieved: counts that go back, or cannot be, are nothing or bounded.
func TestHostileSumsAreNotBelieved(t *testing.T) {
	model := func(saves int, bytes int64, stall float64) status.KV {
		return status.KV{Models: []status.KVModel{{Name: "m", Saves: saves, SavedBytes: bytes, StallSeconds: stall}}}
	}
	if got := bench.SaveBetween(model(4, 400, 4), model(2, 200, 2), "m"); got != nil {
		t.Errorf("%+v of a node that started anew", got)
	}
	if got := bench.SaveBetween(model(0, 0, 0), model(1, math.MaxInt64, 1e300), "m"); got == nil || got.Bytes > 1<<50 || got.MS > 1e9 {
		t.Errorf("%+v", got)
	}
	if got := bench.SaveBetween(model(0, math.MinInt64, 5), model(1, math.MaxInt64, 1), "m"); got == nil || got.Bytes != 0 || got.MS != 0 {
		t.Errorf("%+v", got)
	}
	p := status.KVPair{From: "aa", To: "bb", Path: "<script>", Imports: math.MaxInt, Bytes: -5, FetchSeconds: -1e300}
	if got := bench.ImportBetween(status.KV{}, status.KV{Pairs: []status.KVPair{p}}, "aa", "bb"); got == nil || got.Bytes != 0 || got.Fetch != 0 || strings.ContainsAny(got.Path, "<>") {
		t.Errorf("%+v", got)
	}
}
