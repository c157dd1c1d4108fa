package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/gateway"
	"viiwork/appliance/mesh"
	"viiwork/engine/enginetest"
)

// asked counts the requests of a path that an engine has been sent; "" = all that want an answer.
func asked(f *enginetest.Server, path string) int {
	n := 0
	for _, r := range f.Requests() {
		if r.Method == "POST" && (path == "" || r.Path == path) {
			n++
		}
	}
	return n
}

// lastAsked is the last request of a path that an engine has been sent: it is also asked how it is, at any time.
func lastAsked(t *testing.T, f *enginetest.Server, path string) enginetest.Seen {
	t.Helper()
	all := f.Requests()
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Method == "POST" && all[i].Path == path {
			return all[i]
		}
	}
	t.Fatalf("the engine was never sent %s", path)
	return enginetest.Seen{}
}

// TestAMembersAnswerPassesThrough: every route, streaming or not, through a node that has no model, is answered as the
// member itself would.
func TestAMembersAnswerPassesThrough(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 2, Embeddings: true, Rerank: true})
	fl := newFleet(t, nil, spec{}, spec{models: model("org/m", 2, f.URL())})
	a, b := fl.peers[0], fl.peers[1]
	for _, path := range []string{"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses", "/infill", "/v1/embeddings", "/tokenize", "/apply-template", "/v1/messages/count_tokens"} {
		for _, more := range []string{"", `,"stream":true`} {
			t.Run(path+more, func(t *testing.T) {
				body := ask(path, "org/m", more+`,"input_prefix":"x","input_suffix":"y","content":"hi"`)
				direct, through := b.post(path, body), a.post(path, body, "X-Viiwork-Task", "label")
				if through.err != nil || through.status != 200 || direct.status != 200 {
					t.Fatalf("%d %v, direct %d: %.300s", through.status, through.err, direct.status, through.body)
				}
				if x, y := bones(direct.body), bones(through.body); x != y {
					t.Errorf("direct  %s\nthrough %s", x, y)
				}
				h := through.head
				for name, want := range map[string]string{"X-Viiwork-Node": "b", "X-Viiwork-Origin": "a", "X-Viiwork-Backend": "org/m#0", "X-Viiwork-Model": "org/m", "X-Viiwork-Route": "only", "Content-Type": direct.head.Get("Content-Type")} {
					if h.Get(name) != want {
						t.Errorf("%s: %q, want %q", name, h.Get(name), want)
					}
				}
				if len(h.Values("X-Viiwork-Hop")) > 0 || len(h.Values("X-Viiwork-Signature")) > 0 {
					t.Errorf("what is between nodes reached the client: %v", h)
				}
				entry, _ := a.g.Request(h.Get("X-Viiwork-Request-Id"))
				runner, ok := b.g.Request(h.Get("X-Viiwork-Request-Id"))
				if !ok || entry.Entry != "a" || entry.Node != "b" || runner.Entry != "a" || runner.Node != "b" || entry.Backend != "org/m#0" || entry.Status != 200 || runner.Task != "label" {
					t.Errorf("rows\n%+v\n%+v", entry, runner)
				}
				if (entry.OutputTokens == nil) != (runner.OutputTokens == nil) || entry.OutputTokens != nil && *entry.OutputTokens != *runner.OutputTokens {
					t.Errorf("figures %v, the runner's %v", entry.OutputTokens, runner.OutputTokens)
				}
			})
		}
	}
	if st := f.Stats(); st.Failed != 0 || st.Oversubscribed != 0 {
		t.Errorf("%+v", st)
	}
}

// bones are an answer without what differs from one run to the next: numbers and ids.
func bones(b []byte) string {
	out := make([]byte, 0, len(b))
	for _, part := range strings.FieldsFunc(string(b), func(r rune) bool { return strings.ContainsRune(`"{}[],: `+"\n", r) }) {
		if strings.ContainsAny(part, "0123456789") || len(part) >= 24 {
			continue
		}
		out = append(append(out, part...), ' ')
	}
	return string(out)
}

// TestForwardHappensOnce: 200 requests at one time through three entries, each with a prompt of its own; the engines'
// own journals have each of them once, and none ever had more than it has slots.
func TestForwardHappensOnce(t *testing.T) {
	t.Parallel()
	var fakes []*enginetest.Server
	var specs []spec
	for range 3 {
		f := fake(t, enginetest.Options{Slots: 4, KeepBodies: true, KeepRequests: 10_000, DecodeTPS: 400})
		fakes = append(fakes, f)
		specs = append(specs, spec{models: model("m", 4, f.URL()), change: func(c *gateway.Config) { c.QueueMax, c.QueueTimeout = 256, time.Minute }})
	}
	fl := newFleet(t, nil, specs...)
	const total = 200
	var wg sync.WaitGroup
	nodes := make([]string, total)
	for i := range total {
		wg.Go(func() {
			p, more := fl.peers[i%3], ""
			if i%2 == 0 {
				more = `,"stream":true`
			}
			if i%4 == 1 { // more enter by one node than it can run
				p = fl.peers[0]
			}
			r := p.post("/v1/chat/completions", chat("m", fmt.Sprintf("prompt-%03d.", i), more))
			if r.err != nil || r.status != 200 || more != "" && !bytes.HasSuffix(r.body, []byte("data: [DONE]\n\n")) {
				t.Errorf("request %d: %d %v %.200s", i, r.status, r.err, r.body)
			}
			if nodes[i] = r.head.Get("X-Viiwork-Node"); nodes[i] == "" {
				nodes[i] = r.trailer.Get("X-Viiwork-Node")
			}
		})
	}
	wg.Wait()
	seen := map[string]int{}
	for i, f := range fakes {
		for _, r := range f.Requests() {
			if at := bytes.Index(r.Body, []byte("prompt-")); r.Path == "/v1/chat/completions" && at >= 0 {
				prompt := string(r.Body[at : at+10])
				seen[prompt]++
				var n int
				_, _ = fmt.Sscanf(prompt, "prompt-%03d", &n)
				if want := string(rune('a' + i)); nodes[n] != want {
					t.Errorf("%s ran on %s, its answer says %s", prompt, want, nodes[n])
				}
			}
		}
		if st := f.Stats(); st.Oversubscribed != 0 || st.MaxActive > 4 || st.Cancelled != 0 {
			t.Errorf("engine %d: %+v", i, st)
		}
	}
	if len(seen) != total {
		t.Errorf("%d prompts reached an engine", len(seen))
	}
	for prompt, n := range seen {
		if n != 1 {
			t.Errorf("%s ran %d times", prompt, n)
		}
	}
	forwards := 0
	for _, p := range fl.peers {
		for _, r := range p.g.Requests(1000) {
			if r.Entry == p.Name && r.Node != p.Name {
				forwards++
			}
		}
	}
	t.Logf("%d of %d were forwarded", forwards, total)
	if forwards == 0 {
		t.Error("nothing was forwarded: the test shows nothing")
	}
}

// full takes the only slot of p's model, so that a finds none there. free gives it back, and a knows that when it returns: so
// the other member comes first, whoever has been heard last, and p may come next.
func (p *peer) full(a *peer) (free func()) {
	p.t.Helper()
	gone := p.leaving("/v1/chat/completions", long("m", "full")+`,"stream":true}`, "full")
	p.row("full", "generating")
	a.seesFree(p.ID, "m", 0)
	return sync.OnceFunc(func() { gone(); a.seesFree(p.ID, "m", 1) })
}

func TestARefusalBeforeTheFirstByteMovesOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
	}{
		{"429", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(429) }},
		{"503", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) }},
		{"a refusal of ours", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Viiwork-Refused", "bad_signature")
			w.WriteHeader(403)
		}},
		{"reset", func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }},
		{"reset after keep-alives", func(w http.ResponseWriter, r *http.Request) {
			stream(w, ": waiting", ": waiting")
			panic(http.ErrAbortHandler)
		}},
		{"model gone", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(404)
			_, _ = io.WriteString(w, `{"error":{"message":"none","code":"model_not_found"}}`)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := fake(t, enginetest.Options{Slots: 1, DecodeTPS: 100})
			r := newRogue(t, 8, "m", nil)
			fl := newFleet(t, []mesh.Member{r.Member}, spec{}, spec{models: model("m", 1, f.URL())})
			free := fl.peers[1].full(fl.peers[0])
			r.says(func(w http.ResponseWriter, req *http.Request) { free(); c.answer(w, req) })
			before := asked(f, "")
			got := fl.peers[0].post("/v1/chat/completions", chat("m", "hi", `,"stream":true`))
			if got.status != 200 || got.head.Get("X-Viiwork-Node") != "b" || !bytes.HasSuffix(got.body, []byte("data: [DONE]\n\n")) {
				t.Errorf("%d %v %.300s", got.status, got.head, got.body)
			}
			if r.asked() != 1 || asked(f, "") != before+1 {
				t.Errorf("the member was asked %d times, the next %d", r.asked(), asked(f, "")-before)
			}
		})
	}
}

func TestAnUnreachableMemberIsPassedOver(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 1})
	r := newRogue(t, 8, "m", nil)
	fl := newFleet(t, []mesh.Member{r.Member}, spec{}, spec{models: model("m", 1, f.URL())})
	r.host.die()
	for i := range 3 {
		if got := fl.peers[0].post("/v1/chat/completions", chat("m", "hi", "")); got.status != 200 || got.head.Get("X-Viiwork-Node") != "b" {
			t.Errorf("%d: %d %.300s", i, got.status, got.body)
		}
	}
	fl.peers[0].until("stale", func() bool { return fl.peers[0].sees(r.ID).Report == nil })
	doc := fl.peers[0].do("GET", "/v1/fleet/capacity?model=m", "").json(t)
	for _, h := range at(doc, "models", 0, "hosts").([]any) {
		if at(h, "node") == "rogue" && (at(h, "stale") != true || at(h, "slots") != nil || at(h, "free") != nil || at(h, "ctx") != nil) {
			t.Errorf("a stale host has numbers: %v", h)
		}
	}
	if at(doc, "models", 0, "slots") != 1.0 {
		t.Errorf("%v", doc)
	}
}

// TestAForwardIsNotRetriedAfterTheFirstByte: what the client has a part of is never begun anew, and never looks complete.
func TestAForwardIsNotRetriedAfterTheFirstByte(t *testing.T) {
	t.Parallel()
	first := map[string]string{
		"/v1/chat/completions": `data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}`,
		"/v1/completions":      `data: {"choices":[{"index":0,"text":"x","finish_reason":null}]}`,
		"/v1/messages":         "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}",
		"/v1/responses":        "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}",
	}
	f := fake(t, enginetest.Options{Slots: 1, DecodeTPS: 100})
	r := newRogue(t, 8, "m", nil)
	fl := newFleet(t, []mesh.Member{r.Member}, spec{}, spec{models: model("m", 1, f.URL())})
	for path, event := range first {
		for name, end := range map[string]func(){"broken": func() { panic(http.ErrAbortHandler) }, "ended": func() {}} {
			t.Run(path+" "+name, func(t *testing.T) {
				n := fl.peers[0]
				free := fl.peers[1].full(n)
				before := asked(f, "")
				r.says(func(w http.ResponseWriter, _ *http.Request) { free(); stream(w, event); end() })
				n.seesFree(r.ID, "m", 8)
				got := n.post(path, ask(path, "m", `,"stream":true`))
				ev := events(got.body)
				if got.status != 200 || len(ev) < 2 || !strings.Contains(string(got.body), `"x"`) {
					t.Fatalf("%d %s", got.status, got.body)
				}
				last := ev[len(ev)-1]
				if at(last.json(), "error", "message") == nil && at(last.json(), "message") == nil || strings.Contains(string(got.body), "[DONE]") {
					t.Errorf("it does not end with an error: %s", got.body)
				}
				if row, _ := n.g.Request(got.head.Get("X-Viiwork-Request-Id")); row.Status != 502 || row.Error != "member_broke_off" {
					t.Errorf("row %+v", row)
				}
				if asked(f, "") != before {
					t.Error("another node was asked")
				}
			})
		}
	}
}

func TestARequestsOwnFaultIsNotRetried(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 1, DecodeTPS: 100})
	r := newRogue(t, 8, "m", nil)
	fl := newFleet(t, []mesh.Member{r.Member}, spec{}, spec{models: model("m", 1, f.URL())})
	free := fl.peers[1].full(fl.peers[0])
	r.says(func(w http.ResponseWriter, _ *http.Request) {
		free()
		w.WriteHeader(400)
		_, _ = io.WriteString(w, `{"error":{"message":"too long","type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":4}}`)
	})
	before := asked(f, "")
	doc := wantError(t, fl.peers[0].post("/v1/chat/completions", chat("m", "hi", "")), false, 400, "exceed_context_size_error", "context_length_exceeded")
	if at(doc, "error", "n_ctx") != 4.0 || asked(f, "") != before {
		t.Errorf("%v; asked %d", doc, asked(f, "")-before)
	}
}

// TestALongBodyGoesThroughAHop: 20 MB, and a full node refuses it before it is sent.
func TestALongBodyGoesThroughAHop(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 1, Context: 64 << 20})
	fl := newFleet(t, nil, spec{}, spec{models: model("m", 1, f.URL())})
	pad := strings.Repeat("0123456789abcdef", 20<<16)
	got := fl.peers[0].post("/v1/chat/completions", chat("m", "hi", `,"pad":"`+pad+`"`))
	if got.status != 200 || got.head.Get("X-Viiwork-Node") != "b" {
		t.Fatalf("%d %.200s", got.status, got.body)
	}
	size := 0
	for _, r := range f.Requests() {
		size = max(size, r.Size)
	}
	if size < len(pad) {
		t.Errorf("%d of %d bytes arrived", size, len(pad))
	}
}

// TestAModelOfAnyNameHasItsSeat: the seat is granted for a model and redeemed for that one, however its name is written.
func TestAModelOfAnyNameHasItsSeat(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Qwen 3 (größte)/模型 ", "50%25"} {
		f := fake(t, enginetest.Options{Slots: 1})
		fl := newFleet(t, nil, spec{}, spec{models: model(name, 1, f.URL())})
		a, b := fl.peers[0], fl.peers[1]
		if r := a.post("/v1/chat/completions", chat(name, "hi", "")); r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		b.until("the seat is free", func() bool { return b.free() == 1 })
		if rows := b.g.Requests(10); len(rows) != 1 || rows[0].Model != name {
			t.Errorf("%+v", rows)
		}
	}
}
