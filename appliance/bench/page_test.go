package bench_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"viiwork/appliance/bench"
)

// sample is a run of which everything is known.
func sample() bench.Report {
	r := bench.Report{Started: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Took: 10 * time.Minute, Model: "org/m", Entries: []string{"http://attic:8086"},
		Sessions: 4, Headers: "half", Scale: 0.5, Think: 1, Context: 8192}
	for i := range 200 {
		t := bench.Turn{At: time.Duration(i) * 3 * time.Second, Session: 1 + i%4, Nr: 1 + i/4, Kind: "ordinary", Named: i%2 == 0, Entry: "http://attic:8086",
			Node: []string{"attic", "cellar"}[i/50%2], Backend: "org/m#0", Prompt: 1000, Cached: 950, Output: 50, Had: 960,
			TTFT: time.Duration(1+i%7) * 100 * time.Millisecond, Took: 2 * time.Second}
		switch {
		case i < 4:
			t.Kind, t.Had, t.Cached = "first", 0, 0
		case i%50 == 0:
			t.Moved, t.Cached, t.TTFT = bench.MovedNode, 400, 4*time.Second
		case i%40 == 0:
			t.Moved, t.Cached = bench.MovedBackend, 0
		case i%33 == 0:
			t.Error, t.Refusals = "status 503", 2
		}
		r.Turns = append(r.Turns, t)
	}
	return r
}

// TestPageIsAsDrawn holds the page against the one that was looked at; UPDATE_GOLDEN=1 takes it as it is now.
func TestPageIsAsDrawn(t *testing.T) {
	var page bytes.Buffer
	if err := sample().HTML(&page); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "page.html")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, page.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(page.Bytes(), want) {
		t.Error("the page is another one: look at it, and run with UPDATE_GOLDEN=1 if it is right")
	}
}

// TestPageNeedsNothingElse: no script and no request to anywhere, so that it can be kept, sent and opened offline.
func TestPageNeedsNothingElse(t *testing.T) {
	r := sample()
	for i := range r.Turns {
		r.Turns[i].Node, r.Turns[i].Error = "<script>alert(1)</script>", strings.Replace(r.Turns[i].Error, "status", "<img src=x>", 1)
	}
	r.Model = `"><b onclick=x>`
	var page bytes.Buffer
	if err := r.HTML(&page); err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`(?i)<script|<link|<img|<b onclick|<[^>]*\s(src|href)=|url\(|@import`).FindString(page.String()); found != "" {
		t.Errorf("%q in the page", found)
	}
	for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page.String(), -1) {
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Error("a chart with what is no number")
		}
	}
}

// TestPageStaysSmall however many turns there were, and is drawn of none as well.
func TestPageStaysSmall(t *testing.T) {
	r := sample()
	r.Took = time.Hour
	for i := range 100_000 {
		turn := r.Turns[i%200]
		turn.At, turn.Node = time.Duration(i)*36*time.Millisecond, fmt.Sprintf("n%d", i)
		r.Turns = append(r.Turns, turn)
	}
	for _, turns := range [][]bench.Turn{r.Turns, nil, r.Turns[:1]} {
		r.Turns = turns
		var page bytes.Buffer
		if err := r.HTML(&page); err != nil || page.Len() > 600<<10 {
			t.Errorf("%d turns: %d bytes, %v", len(turns), page.Len(), err)
		}
	}
}

// TestFiguresAreCountedAsInTheSimulator by hand, on a run of which everything is known.
func TestFiguresAreCountedAsInTheSimulator(t *testing.T) {
	s := sample().Summary()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"turns_per_hour", "ttft_mean_s", "ttft_p50_s", "ttft_p95_s", "ttft_p99_s", "hit80", "moved_node", "warm", "partly", "cold", "rejected", "wasted_tokens_per_turn"} {
		if !bytes.Contains(text, []byte(`"`+key+`":`)) {
			t.Errorf("no %s in %s", key, text)
		}
	}
	// 200 turns: 4 first, 3 that changed node (50, 100, 150), 4 that changed backend (40, 80, 120, 160), 6 that failed.
	const ordinary = 200 - 4 - 6
	near := func(got, want float64) bool { return got > want-1e-9 && got < want+1e-9 }
	if s.Turns != 194 || s.Failed != 6 || !near(s.TurnsPerHour, 194*6) || !near(s.Hit80, (ordinary-7.0)/ordinary) || !near(s.MovedNode, 3.0/ordinary) ||
		!near(s.MovedBackend, 4.0/ordinary) || s.Partly != 1 || s.Warm != 0 || s.Cold != 0 || !near(s.Rejected, 12.0/212) ||
		!near(s.Wasted, float64(183*10+3*560+4*960)/ordinary) {
		t.Errorf("%s", text)
	}
	if s.Classes[0].Turns != 183 || s.Classes[1].Turns != 3 || s.Classes[2].Turns != 8 || len(s.Nodes) != 2 || s.Nodes[0].Node != "attic" {
		t.Errorf("%s", text)
	}
}
