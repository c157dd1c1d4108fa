package bench_test

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"viiwork/appliance/bench"
	"viiwork/engine/enginetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// entry is what stands between agents and an engine: it names itself in the headers and lists its model, as a node does.
type entry struct {
	name   string
	engine *enginetest.Server
	refuse func(*http.Request) bool // nil = never

	mu   sync.Mutex
	keys map[string]bool
}

func (e *entry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/models" {
		fmt.Fprint(w, `{"data":[{"id":"m","context_length":65536},{"id":"alias","viiwork":{"alias_of":"m"}}]}`)
		return
	}
	if r.URL.Path != "/v1/chat/completions" {
		e.engine.Handler().ServeHTTP(w, r)
		return
	}
	e.mu.Lock()
	e.keys[r.Header.Get("X-Session-Id")] = true
	e.mu.Unlock()
	if e.refuse != nil && e.refuse(r) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	w.Header().Set("X-Viiwork-Node", e.name)
	w.Header().Set("X-Viiwork-Backend", "m#0")
	w.Header().Set("X-Viiwork-Queue-Ms", "1.5")
	e.engine.Handler().ServeHTTP(w, r)
}

// fleet starts entries with an engine each.
func fleet(t *testing.T, n int) (all []*entry, urls []string) {
	t.Helper()
	for i := range n {
		e := &entry{name: fmt.Sprintf("n%d", i), engine: enginetest.New(enginetest.Options{Slots: 1, Model: "m", Context: 1 << 16}), keys: map[string]bool{}}
		t.Cleanup(e.engine.Close)
		all, urls = append(all, e), append(urls, serve(t, e))
	}
	return all, urls
}

func serve(t *testing.T, h http.Handler) string {
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// usual is a short run without thinking.
func usual(urls ...string) bench.Config {
	return bench.Config{Entries: urls, Sessions: 3, Turns: 6, Headers: "all", Scale: 0.05, Seed: 3}
}

func run(t *testing.T, cfg bench.Config) bench.Report {
	t.Helper()
	r, err := bench.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestASessionFindsWhatItHad: alone at an engine, every turn but a session's first finds what there was, by the engine's
// own count, and nothing moves.
func TestASessionFindsWhatItHad(t *testing.T) {
	_, urls := fleet(t, 1)
	var told atomic.Int32
	cfg := usual(urls...)
	cfg.Sessions, cfg.Turns = 1, 18
	cfg.Ended = func(bench.Turn) { told.Add(1) }
	r := run(t, cfg)
	s := r.Summary()
	if s.Turns != 18 || int(told.Load()) != 18 || s.Failed != 0 || s.Hit80 < 1 || s.MovedNode != 0 || s.Rejected != 0 {
		t.Errorf("%+v", s)
	}
	for _, turn := range r.Turns {
		switch {
		case turn.Error != "", turn.Node != "n0", turn.Backend != "m#0", turn.Queue != 1500*time.Microsecond, turn.TTFT <= 0, turn.Took < turn.TTFT:
			t.Errorf("%+v", turn)
		case turn.Kind == "ordinary" && (turn.Had == 0 || turn.Cached < turn.Had*9/10 || turn.Prompt <= turn.Had):
			t.Errorf("%+v", turn)
		}
	}
}

// TestTheTextComesToTheTokensPlanned: what is sent is as long as the work says, within what can be known before an answer.
func TestTheTextComesToTheTokensPlanned(t *testing.T) {
	_, urls := fleet(t, 1)
	for _, turn := range run(t, usual(urls...)).Turns {
		if head := 305; turn.Kind == "first" && (turn.Prompt < head*8/10 || turn.Prompt > head*13/10) {
			t.Errorf("a first turn of %d tokens, planned were %d", turn.Prompt, head)
		}
	}
}

// TestSessionsThatScatterAreSeenToScatter: entries that know nothing of each other, each with an engine of its own.
func TestSessionsThatScatterAreSeenToScatter(t *testing.T) {
	all, urls := fleet(t, 3)
	cfg := usual(urls...)
	cfg.Turns, cfg.Headers = 60, "half" // of which each entry gets some: one in three by chance
	r := run(t, cfg)
	s := r.Summary()
	if s.MovedNode < 0.3 || s.Hit80 > 0.95 || len(s.Nodes) != 3 || s.Partly+s.Cold == 0 || s.Wasted <= 0 {
		t.Errorf("%+v", s)
	}
	for _, e := range all {
		if !e.keys[""] || len(e.keys) < 2 {
			t.Errorf("keys at %s: %v", e.name, e.keys)
		}
	}
	cfg.Single = true
	if s := run(t, cfg).Summary(); len(s.Nodes) != 1 || s.MovedNode != 0 {
		t.Errorf("%+v", s)
	}
}

// TestRetryAfterIsHonoured: a refused turn waits as long as it is told, comes again, and counts from its first try.
func TestRetryAfterIsHonoured(t *testing.T) {
	all, urls := fleet(t, 1)
	var refused atomic.Int32
	all[0].refuse = func(*http.Request) bool { return refused.Add(1) <= 2 }
	cfg := usual(urls...)
	cfg.Sessions, cfg.Turns = 1, 1
	r := run(t, cfg)
	if len(r.Turns) != 1 || r.Turns[0].Error != "" || r.Turns[0].Refusals != 2 || r.Turns[0].TTFT < 2*time.Second || r.Summary().Rejected < 0.6 {
		t.Errorf("%+v", r.Turns)
	}
}

func TestPausesAreWithinReason(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 2 * time.Second, "7": 7 * time.Second, "0": time.Second, "-5": 2 * time.Second, "x": 2 * time.Second, "99999999999999999999": 2 * time.Second,
		"86400": time.Minute, "Fri, 31 Dec 1999 23:59:59 GMT": 2 * time.Second,
	} {
		if got := bench.PauseOf(http.Header{"Retry-After": {text}}); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestTheEndBreaksOffWhatRuns: when time or the context is over, streams are cut at once and not counted.
func TestTheEndBreaksOffWhatRuns(t *testing.T) {
	gone := make(chan struct{}, 8)
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/chat/completions" {
			steady(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")
		w.(http.Flusher).Flush()
		gone <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	}))
	cfg := usual(url)
	cfg.Sessions = 1
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-gone; cancel() }()
	r, err := bench.Run(ctx, cfg)
	if err != nil || !r.Cut || len(r.Turns) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	<-gone // the entry saw its client leave
	cfg.Duration = 50 * time.Millisecond
	if r := run(t, cfg); r.Cut || len(r.Turns) != 0 {
		t.Errorf("%+v", r)
	}
}

// TestASessionEndsRatherThanGrowForEver even if the entry says that its prompts are short.
func TestASessionEndsRatherThanGrowForEver(t *testing.T) {
	most := int64(0)
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/chat/completions" {
			most = max(most, r.ContentLength)
		}
		steady(w, r)
	}))
	cfg := usual(url)
	cfg.Sessions, cfg.Turns = 1, 400
	if r := run(t, cfg); len(r.Turns) != 400 {
		t.Errorf("%d turns", len(r.Turns))
	}
	if limit := int64(0.05 * 95_000 * 16 * 2); most > limit {
		t.Errorf("a request of %d bytes, over %d", most, limit)
	}
}

func TestWhatCannotBePlayedIsRefused(t *testing.T) {
	good := usual("http://x")
	for name, change := range map[string]func(*bench.Config){
		"no sessions": func(c *bench.Config) { c.Sessions = 0 }, "many": func(c *bench.Config) { c.Sessions = 1e6 },
		"endless": func(c *bench.Config) { c.Turns = 0 }, "turns": func(c *bench.Config) { c.Turns = -1 }, "long": func(c *bench.Config) { c.Duration = 1e18 },
		"headers": func(c *bench.Config) { c.Headers = "some" }, "scale": func(c *bench.Config) { c.Scale = -1 }, "think": func(c *bench.Config) { c.Think = 1e9 },
	} {
		cfg := good
		change(&cfg)
		if _, err := bench.Run(t.Context(), cfg); err == nil || cfg.Validate() == nil {
			t.Errorf("%s passes", name)
		}
	}
	if good.Validate() != nil {
		t.Error(good.Validate())
	}
}

func TestEntriesAreWhatPeopleWrite(t *testing.T) {
	for text, want := range map[string]string{
		"attic:8086": "http://attic:8086", "http://attic:8086/v1/": "http://attic:8086", "https://a.example": "https://a.example", "[::1]:8086": "http://[::1]:8086",
		"": "", "ftp://attic": "", "http://attic/x": "", "http://me:pass@attic": "", "http://attic?x=1": "", "http://:80": "",
	} {
		if got, err := bench.ParseEntry(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestTheModelMustFit(t *testing.T) {
	list := ""
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			fmt.Fprint(w, list)
			return
		}
		steady(w, r)
	}))
	for _, c := range []struct {
		list, model string
		scale       float64
		fault       string
	}{
		{`{"data":[{"id":"a","context_length":8192},{"id":"b","context_length":8192}]}`, "", 0, "name one with --model: a, b"},
		{`{"data":[]}`, "", 0, "no model"},
		{`{"data":[{"id":"a"}]}`, "", 0, "not known"},
		{`{"data":[{"id":"a","context_length":8192}]}`, "b", 0, "no entry has a model"},
		{`{"data":[{"id":"a","context_length":8192}]}`, "", 1, "give a scale of 0.322 or less"},
		{`{"data":[{"id":"a","context_length":16}]}`, "", 0, "too small"},
		{strings.Repeat("x", 5<<20), "", 0, "no JSON"},
		{`{"data":[{"id":"a","context_length":8192}]}`, "", 0, ""},
	} {
		list = c.list
		cfg := usual(url)
		cfg.Model, cfg.Scale, cfg.Turns, cfg.Sessions = c.model, c.scale, 1, 1
		_, err := bench.Run(t.Context(), cfg)
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%.60s, %q at %v: %v, want %q", c.list, c.model, c.scale, err, c.fault)
		}
	}
	cfg := usual("http://127.0.0.1:1", url)
	if _, err := bench.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:1") {
		t.Errorf("%v", err)
	}
	cfg.SkipDead = true
	if r := run(t, cfg); len(r.Entries) != 1 {
		t.Errorf("%v", r.Entries)
	}
}

// TestRowsAreWhatCameOfTurns reads the file as a spreadsheet would.
func TestRowsAreWhatCameOfTurns(t *testing.T) {
	_, urls := fleet(t, 1)
	var text strings.Builder
	rows, err := bench.NewCSV(&text)
	if err != nil {
		t.Fatal(err)
	}
	cfg := usual(urls...)
	cfg.Ended = func(turn bench.Turn) {
		if err := rows.Add(turn); err != nil {
			t.Error(err)
		}
	}
	run(t, cfg)
	read, err := csv.NewReader(strings.NewReader(text.String())).ReadAll()
	if err != nil || len(read) != 19 {
		t.Fatal(err, len(read))
	}
	const head = "at_s session turn kind named entry node backend route key prompt_tokens cached_tokens had_tokens output_tokens class ttft_s took_s queue_ms refusals moved error"
	if got := strings.Join(read[0], " "); got != head {
		t.Errorf("%s", got)
	}
	if row := read[1]; row[3] != "first" || row[4] != "true" || row[5] != urls[0] || row[6] != "n0" || row[17] != "1.5" || row[20] != "" {
		t.Errorf("%q", row)
	}
}
