package bench_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/bench"
	"viiwork/appliance/status"
)

// movers are nodes of one mesh that take caches along, each at an address of its own. A token has four bytes.
type movers struct {
	mode  string
	names []string
	room  int
	mute  string                            // it tells nothing of its caches
	busy  func(r *http.Request) bool        // nil = never
	chat  func(w http.ResponseWriter) error // nil = they answer
	model status.KVModel

	mu    sync.Mutex // guards what follows
	urls  map[string]string
	homes map[string]string // of sessions
	seen  []string          // the way of each request: "session host"
	told  map[string]*status.KV
}

func newMovers(t *testing.T, names ...string) *movers {
	m := &movers{mode: "pull", names: names, room: 65536, model: status.KVModel{Name: "m", Enabled: true}, urls: map[string]string{}, homes: map[string]string{}, told: map[string]*status.KV{}}
	for _, n := range names {
		m.told[n] = &status.KV{Pairs: []status.KVPair{}}
		m.urls[n] = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(n, w, r) }))
	}
	return m
}

func (m *movers) serve(node string, w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch r.URL.Path {
	case "/v1/fleet/capacity":
		m.capacity(node, w)
	case "/api/kv":
		if node == m.mute {
			http.NotFound(w, r)
			return
		}
		kv := *m.told[node]
		kv.Mode, kv.Models = m.mode, []status.KVModel{m.model}
		kv.Models[0].Saves, kv.Models[0].SavedBytes, kv.Models[0].StallSeconds = len(m.seen), int64(len(m.seen))*4000, float64(len(m.seen))*0.25
		_ = json.NewEncoder(w).Encode(kv)
	case "/v1/chat/completions":
		if m.busy != nil && m.busy(r) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		if m.chat != nil && m.chat(w) != nil {
			return
		}
		m.answer(w, r, len(body)/4)
	default:
		http.NotFound(w, r)
	}
}

func (m *movers) capacity(node string, w http.ResponseWriter) {
	var hosts []string
	for _, n := range m.names {
		api := fmt.Sprintf(`"api":%q,`, strings.TrimPrefix(m.urls[n], "http://"))
		if n == node {
			api = ""
		}
		hosts = append(hosts, fmt.Sprintf(`{"node":%q,%s"slots":2,"ctx":%d}`, n, api, m.room))
	}
	alone := fmt.Sprintf(`{"name":"alone","hosts":[{"node":%q,"slots":2,"ctx":4096}]}`, node)
	fmt.Fprintf(w, `{"models":[%s,{"name":"m","hosts":[%s,{"node":"<b>","slots":2},{"node":"old","slots":2,"stale":true}]}]}`, alone, strings.Join(hosts, ","))
}

// answer runs at the host asked for, which brings the cache along from the session's home.
func (m *movers) answer(w http.ResponseWriter, r *http.Request, tokens int) {
	at, session := r.URL.Query().Get("host"), r.Header.Get("X-Session-Id")
	home, cached, route := m.homes[session], 0, "pinned"
	if home != "" && home != at && m.mode == "pull" {
		cached, route = tokens*95/100, "pull"
		kv := m.told[at]
		i := slices.IndexFunc(kv.Pairs, func(p status.KVPair) bool { return p.From == home })
		if i < 0 {
			kv.Pairs = append(kv.Pairs, status.KVPair{From: home, To: at, Path: "direct"})
			i = len(kv.Pairs) - 1
		}
		p := &kv.Pairs[i]
		p.Transfers, p.Bytes, p.Imports, p.Proved = p.Transfers+1, p.Bytes+1000, p.Imports+1, p.Proved+1
		p.FetchSeconds, p.AssembleSeconds, p.RestoreSeconds = p.FetchSeconds+0.5, p.AssembleSeconds+0.02, p.RestoreSeconds+0.01
	}
	m.homes[session] = at
	m.seen = append(m.seen, session+" "+at)
	w.Header().Set("X-Viiwork-Node", at)
	w.Header().Set("X-Viiwork-Route", route)
	fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"well\"}}]}\n\n"+
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":16,\"prompt_tokens_details\":{\"cached_tokens\":%d}}}\n\ndata: [DONE]\n\n", tokens, cached)
}

func (m *movers) kv() bench.KV {
	return bench.KV{Entry: m.urls[m.names[0]], Tokens: []int{1000, 400}, Pairs: 12}
}

func measure(t *testing.T, k bench.KV) bench.KVReport {
	t.Helper()
	r, err := k.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAConversationGoesThereAndBack, and another one begins where it went, for each way between two nodes and each length.
func TestAConversationGoesThereAndBack(t *testing.T) {
	m := newMovers(t, "aa", "bb")
	r := measure(t, m.kv())
	if r.Model != "m" || len(r.Pairs) != 2 || r.Context != 65536 || r.Cut || !r.Measured() || len(r.Nodes) != 2 || r.Nodes[1] != (bench.KVNode{Node: "bb", Mode: "pull", Enabled: true}) {
		t.Errorf("%+v", r)
	}
	var ways []string
	sessions := map[string]string{}
	for _, s := range m.seen {
		session, at, _ := strings.Cut(s, " ")
		if _, ok := sessions[session]; !ok {
			ways = append(ways, session)
		}
		sessions[session] += at
	}
	var got []string
	for _, s := range ways {
		got = append(got, sessions[s])
	}
	if want := []string{"aabbaa", "bb", "aabbaa", "bb", "bbaabb", "aa", "bbaabb", "aa"}; !slices.Equal(got, want) {
		t.Errorf("conversations went %v, want %v", got, want)
	}
	for _, p := range r.Pairs {
		if len(p.Sizes) != 2 || p.Sizes[0].Planned != 400 || p.Sizes[1].Planned != 1000 {
			t.Fatalf("%+v", p)
		}
		for _, s := range p.Sizes {
			delta := s.There.Import
			if s.Error != "" || s.There.Route != "pull" || s.There.Class != "warm" || s.Back.Route != "pull" || s.Cold <= 0 || s.Begin <= 0 || s.There.TTFT <= 0 ||
				s.Saved != s.Cold-s.There.TTFT || s.Tokens != s.There.Prompt || s.Tokens < s.Planned || delta == nil || delta.Delta == nil {
				t.Fatalf("%+v", s)
			}
			share := 0.25
			if want := (bench.KVImport{Fetch: 500, Assemble: 20, Restore: 10, Bytes: 1000, Delta: delta.Delta, Path: "direct", Proved: true}); *delta != want || *delta.Delta != share {
				t.Errorf("%+v, want %+v", *delta, want)
			}
			if s.There.Save == nil || *s.There.Save != (bench.KVSave{Saves: 1, MS: 250, Bytes: 4000}) {
				t.Errorf("%+v", s.There.Save)
			}
		}
	}
}

// TestWhatANodeDoesNotTellIsLeftOut, and the times to the first token are there all the same.
func TestWhatANodeDoesNotTellIsLeftOut(t *testing.T) {
	m := newMovers(t, "aa", "bb")
	m.mute = "bb"
	r := measure(t, m.kv())
	for _, p := range r.Pairs {
		for _, s := range p.Sizes {
			if s.Error != "" || s.Cold <= 0 || (s.There.Import != nil) != (p.To == "aa") || (s.There.Save != nil) != (p.From == "aa") {
				t.Errorf("%s → %s: %+v", p.From, p.To, s.There)
			}
		}
	}
	if r.Nodes[1].Mode != "" || !r.Nodes[1].Enabled {
		t.Errorf("%+v", r.Nodes)
	}
}

// TestNothingIsAskedOfWhoDoesNotMoveCaches: it would cost a prompt for nothing.
func TestNothingIsAskedOfWhoDoesNotMoveCaches(t *testing.T) {
	for says, change := range map[string]func(*movers){
		"kv_share is off at aa (aa → bb)":                                 func(m *movers) { m.mode = "off" },
		"kv_share has switched itself off for this model at aa (aa → bb)": func(m *movers) { m.model.Enabled = false },
	} {
		m := newMovers(t, "aa", "bb")
		change(m)
		r := measure(t, m.kv())
		if len(m.seen) != 0 || r.Measured() || r.Pairs[0].Verdict != bench.Switched || r.Pairs[0].Says != says {
			t.Errorf("%+v", r.Pairs)
		}
	}
}

// TestARefusedMoveIsTriedAgain after as long as it is told, which is no part of what moving takes.
func TestARefusedMoveIsTriedAgain(t *testing.T) {
	m := newMovers(t, "aa", "bb")
	refused := 0
	m.busy = func(*http.Request) bool { refused++; return refused == 2 }
	k := m.kv()
	k.Tokens, k.Pairs = []int{400}, 1
	begun := time.Now()
	r := measure(t, k)
	s := r.Pairs[0].Sizes[0]
	if took := time.Since(begun); s.Error != "" || s.Refused != 1 || took < time.Second || s.There.TTFT >= took.Seconds() {
		t.Errorf("%+v in %v", s, took)
	}
}

// TestABrokenMoveIsNamed in words of ours, and the others are measured.
func TestABrokenMoveIsNamed(t *testing.T) {
	m := newMovers(t, "aa", "bb")
	asked := 0
	m.chat = func(w http.ResponseWriter) error {
		if asked++; asked == 2 {
			w.WriteHeader(http.StatusBadGateway)
			return errors.New("broken")
		}
		return nil
	}
	k := m.kv()
	k.Pairs = 1
	var text strings.Builder
	rows, err := bench.NewKVCSV(&text)
	if err != nil {
		t.Fatal(err)
	}
	k.Ended = func(p bench.KVPair, s bench.KVSize) {
		if err := rows.Add(p, s); err != nil {
			t.Error(err)
		}
	}
	r := measure(t, k)
	if sizes := r.Pairs[0].Sizes; len(sizes) != 2 || sizes[0].Error != "status 502" || sizes[1].Error != "" {
		t.Errorf("%+v", sizes)
	}
	read, err := csv.NewReader(strings.NewReader(text.String())).ReadAll()
	if err != nil || len(read) != 4 || read[1][19] != "status 502" || read[1][8] != "" || read[2][3] != "there" || read[2][16] != "direct" || read[3][3] != "back" || read[3][0] != "bb" {
		t.Errorf("%q, %v", read, err)
	}
	const head = "from to planned_tokens move prompt_tokens cached_tokens class route cold_s moved_s save_ms state_bytes fetch_ms assemble_ms restore_ms bytes path proved refused error"
	if got := strings.Join(read[0], " "); got != head {
		t.Errorf("%s", got)
	}
}

// TestTheEndKeepsWhatWasMeasured and counts nothing that was under way.
func TestTheEndKeepsWhatWasMeasured(t *testing.T) {
	m := newMovers(t, "aa", "bb")
	ctx, cancel := context.WithCancel(t.Context())
	k := m.kv()
	k.Ended = func(bench.KVPair, bench.KVSize) { cancel() }
	r, err := k.Run(ctx)
	if err != nil || !r.Cut || len(r.Pairs[0].Sizes) != 1 || len(r.Pairs[1].Sizes) != 0 || r.Pairs[1].Verdict != bench.NotKnown || !r.Measured() {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestPromptsFitTheSlot: those too long are as long as there is room, and measured once.
func TestPromptsFitTheSlot(t *testing.T) {
	m := newMovers(t, "aa", "bb")
	m.room = 1024
	k := m.kv()
	k.Tokens, k.Pairs = []int{32000, 400, 8000}, 1
	sizes := measure(t, k).Pairs[0].Sizes
	if len(sizes) != 2 || sizes[0].Planned != 400 || sizes[1].Planned < 600 || sizes[1].Planned > 920 {
		t.Errorf("%+v", sizes)
	}
	m.room = 256
	if _, err := k.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "too small") {
		t.Error(err)
	}
}

// TestThereMustBeSomewhereToMoveTo, under a name that can be asked for.
func TestThereMustBeSomewhereToMoveTo(t *testing.T) {
	m := newMovers(t, "aa")
	if _, err := m.kv().Run(t.Context()); !errors.Is(err, bench.ErrFewNodes) || !strings.Contains(err.Error(), "start it on a second node") {
		t.Error(err)
	}
	k := newMovers(t, "aa", "bb", "cc", "dd").kv()
	k.Tokens, k.Pairs = []int{400}, 4
	var ways []string
	for _, p := range measure(t, k).Pairs {
		ways = append(ways, p.From+p.To)
	}
	if want := []string{"aabb", "bbcc", "ccdd", "ddaa"}; !slices.Equal(ways, want) {
		t.Errorf("%v, want %v", ways, want)
	}
}

func TestWhatCannotBeMovedIsRefused(t *testing.T) {
	good := bench.KV{Entry: "http://x", Tokens: []int{2000}, Pairs: 1}
	for name, change := range map[string]func(*bench.KV){
		"no lengths": func(k *bench.KV) { k.Tokens = nil }, "short": func(k *bench.KV) { k.Tokens = []int{1} }, "long": func(k *bench.KV) { k.Tokens = []int{1 << 30} },
		"many": func(k *bench.KV) { k.Tokens = make([]int, 99) }, "no pairs": func(k *bench.KV) { k.Pairs = 0 }, "pairs": func(k *bench.KV) { k.Pairs = 1e6 },
		"pause": func(k *bench.KV) { k.Pause = -1 }, "for ever": func(k *bench.KV) { k.Pause = time.Hour },
	} {
		k := good
		change(&k)
		if _, err := k.Run(t.Context()); err == nil || k.Validate() == nil {
			t.Errorf("%s passes", name)
		}
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}
