package gateway_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"viiwork/appliance/gateway"
	"viiwork/engine"
	"viiwork/engine/enginetest"
)

// apis are the routes of both error shapes.
var apis = []struct {
	path      string
	anthropic bool
}{{"/v1/chat/completions", false}, {"/v1/completions", false}, {"/v1/embeddings", false}, {"/v1/responses", false}, {"/v1/messages", true}, {"/v1/messages/count_tokens", true}}

// wantError checks status, shape and headers of an error on one of both APIs.
func wantError(t *testing.T, r reply, anthropic bool, status int, kind, code string) map[string]any {
	t.Helper()
	if r.err != nil || r.status != status {
		t.Fatalf("status %d, want %d (%v): %.300s", r.status, status, r.err, r.body)
	}
	doc := r.json(t)
	e, _ := doc["error"].(map[string]any)
	if msg, _ := e["message"].(string); msg == "" || strings.Contains(msg, "127.0.0.1") {
		t.Errorf("message %q", msg)
	}
	if !strings.HasPrefix(r.head.Get("Content-Type"), "application/json") || r.head.Get("X-Viiwork-Request-Id") == "" {
		t.Errorf("headers %v", r.head)
	}
	if (status == 429 || status == 503) != (r.head.Get("Retry-After") != "") {
		t.Errorf("status %d with Retry-After %q", status, r.head.Get("Retry-After"))
	}
	if anthropic {
		if doc["type"] != "error" || e["type"] == "" || e["type"] == nil {
			t.Errorf("shape %s", r.body)
		}
		return doc
	}
	for _, name := range []string{"message", "type", "param", "code"} {
		if _, ok := e[name]; !ok {
			t.Errorf("%q is missing: %s", name, r.body)
		}
	}
	if e["type"] != kind || code != "" && e["code"] != code {
		t.Errorf("type %v code %v, want %s %s", e["type"], e["code"], kind, code)
	}
	return doc
}

func ask(path, model, more string) string {
	return `{"model":"` + model + `","max_tokens":4,"messages":[{"role":"user","content":"hi"}],"prompt":"hi","input":"hi"` + more + `}`
}

func TestEveryRefusalHasTheAPIsOwnShape(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 2, Context: 200, Embeddings: true})
	loading := fake(t, enginetest.Options{LoadFor: time.Hour})
	n := start(t, append(model("org/m", 2, f.URL()), model("later", 1, loading.URL())...), func(c *gateway.Config) { c.MaxBody = 64 << 10 })
	n.until("org/m ready", func() bool { return n.e.Snapshot()[0].Backends[0].State == engine.StateReady })
	for _, api := range apis {
		for _, stream := range []string{"", `,"stream":true`} {
			name := api.path + stream
			t.Run(name, func(t *testing.T) {
				doc := wantError(t, n.post(api.path, ask(api.path, "0rg/m", stream)), api.anthropic, 404, "invalid_request_error", "model_not_found")
				if msg := at(doc, "error", "message").(string); !strings.Contains(msg, `"org/m"`) {
					t.Errorf("the nearest is not named: %s", msg)
				}
				wantError(t, n.post(api.path, `{bad`), api.anthropic, 400, "invalid_request_error", "invalid_json")
				wantError(t, n.post(api.path, ``), api.anthropic, 400, "invalid_request_error", "invalid_json")
				wantError(t, n.post(api.path, `{"messages":[]}`), api.anthropic, 400, "invalid_request_error", "missing_model")
				wantError(t, n.post(api.path, `{"model":7}`), api.anthropic, 400, "invalid_request_error", "")
				wantError(t, n.post(api.path, `{"model":"org/m","stream":"yes"}`), api.anthropic, 400, "invalid_request_error", "")
				wantError(t, n.post(api.path, ask(api.path, "org/m", stream+`,"x":"`+strings.Repeat("x", 65<<10)+`"`)), api.anthropic, 413, "invalid_request_error", "request_too_large")
				wantError(t, n.post(api.path, ask(api.path, "later", stream)), api.anthropic, 503, "server_error", "model_not_ready")
				wantError(t, n.post(api.path+"?host=elsewhere", ask(api.path, "org/m", stream)), api.anthropic, 404, "invalid_request_error", "host_not_found")
				wantError(t, n.do("GET", api.path, ""), api.anthropic, 405, "invalid_request_error", "method_not_allowed")
				wantError(t, n.post(api.path, ask(api.path, "org/m", stream), "Host", "evil.example"), api.anthropic, 421, "invalid_request_error", "host_not_allowed")
				wantError(t, n.post(api.path, ask(api.path, "org/m", stream), "Origin", "http://evil.example"), api.anthropic, 403, "permission_error", "origin_not_allowed")
				wantError(t, n.post(api.path, "x", "Content-Encoding", "zstd"), api.anthropic, 415, "invalid_request_error", "")
			})
		}
	}
	wantError(t, n.post("/v1/nothing", "{}"), false, 404, "invalid_request_error", "not_found")
	if st := f.Stats(); st.Failed != 0 {
		t.Errorf("refused requests reached the engine: %+v", st)
	}
}

func TestAPromptThatDoesNotFitKeepsItsNumbers(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 1, Context: 200})
	n := start(t, model("m", 1, f.URL())).ready()
	long := `{"model":"m","max_tokens":4,"messages":[{"role":"user","content":"` + strings.Repeat("x", 400) + `"}],"input":"` + strings.Repeat("x", 400) + `","prompt":"` + strings.Repeat("x", 400) + `"`
	for _, api := range apis[:5] {
		if api.path == "/v1/embeddings" {
			continue
		}
		for _, stream := range []string{"}", `,"stream":true}`} {
			doc := wantError(t, n.post(api.path, long+stream), api.anthropic, 400, "exceed_context_size_error", "context_length_exceeded")
			if at(doc, "error", "n_ctx") != 200.0 || at(doc, "error", "n_prompt_tokens").(float64) < 400 {
				t.Errorf("%s: %v", api.path, doc)
			}
		}
	}
}

func TestAFullHouseIsRefusedAfterTheQueue(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 1, DecodeTPS: 20, ReplyTokens: 4000})
	n := start(t, model("m", 1, f.URL()), homely).ready()
	resp, leave := n.open("/v1/chat/completions", long("m", "hold")+`,"stream":true}`, "X-Session-Id", "s")
	defer leave()
	readUntil(t, resp.Body, "content")
	for _, api := range apis {
		for _, stream := range []string{"", `,"stream":true`} {
			status, kind := 429, "rate_limit_error"
			if api.path == "/v1/responses" {
				status, kind = 503, "server_error"
			}
			r := n.post(api.path, ask(api.path, "m", stream))
			wantError(t, r, api.anthropic, status, kind, "queue_timeout")
			if r.head.Get("Retry-After") != "2" {
				t.Errorf("Retry-After %q", r.head.Get("Retry-After"))
			}
		}
	}
	if st := f.Stats(); st.Oversubscribed != 0 {
		t.Errorf("the engine had to queue: %+v", st)
	}
}

func TestADrainingNodeSaysSo(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 1})
	n := start(t, model("m", 1, f.URL())).ready()
	n.e.Drain(true)
	for _, api := range apis {
		wantError(t, n.post(api.path, ask(api.path, "m", "")), api.anthropic, 503, "server_error", "draining")
	}
}

func TestADeadEngineIs502BeforeTheFirstByte(t *testing.T) {
	var down atomic.Bool
	up := fake(t, enginetest.Options{Slots: 32})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() && r.Method == "POST" {
			panic(http.ErrAbortHandler)
		}
		up.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	n := start(t, model("m", 32, srv.URL)).ready()
	down.Store(true)
	for _, api := range apis {
		for _, stream := range []string{"", `,"stream":true`} {
			wantError(t, n.post(api.path, ask(api.path, "m", stream)), api.anthropic, 502, "server_error", "engine_broke_off")
		}
	}
}

func TestAnEnginesRefusalPassesInOurShape(t *testing.T) {
	for _, status := range []int{400, 401, 404, 422, 429, 500, 501, 503} {
		u := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"error":{"code":400,"message":"so it is","type":"some_error","secret":"x"}}`))
		})
		n := start(t, model("m", 4, u)).ready()
		for _, api := range apis {
			r := n.post(api.path, ask(api.path, "m", `,"x":"scripted"`))
			doc := wantError(t, r, api.anthropic, status, "some_error", "some_error")
			if at(doc, "error", "message") != "so it is" || strings.Contains(string(r.body), "secret") {
				t.Errorf("%s %d: %s", api.path, status, r.body)
			}
		}
	}
}

func TestGarbageFromAnEngineIsAnError(t *testing.T) {
	u := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(418)
		_, _ = w.Write([]byte("\x00<html>http://127.0.0.1:1234/"))
	})
	n := start(t, model("m", 4, u)).ready()
	wantError(t, n.post("/v1/chat/completions", chat("m", "scripted", "")), false, 418, "invalid_request_error", "")
	f := fake(t, enginetest.Options{Slots: 1})
	n = start(t, model("m", 1, f.URL())).ready()
	f.SetFaults(enginetest.Faults{Garbage: true})
	wantError(t, n.post("/v1/chat/completions", chat("m", "x", "")), false, 502, "server_error", "")
}

// TestA200ThatHoldsNoAnswerIsAnError: it must not reach a client as one.
func TestA200ThatHoldsNoAnswerIsAnError(t *testing.T) {
	for _, answer := range []string{"", "<html>", `{"choices":[{`, "\x00"} {
		u := scripted(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) })
		n := start(t, model("m", 4, u)).ready()
		for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/embeddings", "/tokenize"} {
			for _, stream := range []string{"", `,"stream":true`} {
				kind := "server_error"
				if path == "/v1/messages" {
					kind = "api_error"
				}
				wantError(t, n.post(path, ask(path, "m", stream+`,"x":"scripted"`)), path == "/v1/messages", 502, kind, "")
			}
		}
		freed(n)
	}
}

// TestAnotherBackendTakesOverBeforeTheFirstByte: one backend's refusal is not the client's as long as another is there.
func TestAnotherBackendTakesOverBeforeTheFirstByte(t *testing.T) {
	for name, fail := range map[string]func(http.ResponseWriter){
		"loading":    func(w http.ResponseWriter) { w.WriteHeader(503) },
		"full":       func(w http.ResponseWriter) { w.WriteHeader(429) },
		"breaks off": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
	} {
		var asked atomic.Int32
		u := scripted(t, func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) == 1 {
				fail(w)
			}
			stream(w, `data: {"choices":[{"index":0,"delta":{"content":"fine"},"finish_reason":"stop"}]}`, "data: [DONE]")
		})
		two := model("m", 1, u)
		two[0].Backends = append(two[0].Backends, engine.BackendSpec{})
		n := start(t, two).ready()
		r := n.post("/v1/chat/completions", chat("m", "scripted", `,"stream":true`))
		if r.status != 200 || said(events(r.body)) != "fine" || asked.Load() != 2 {
			t.Errorf("%s: %d after %d tries: %s", name, r.status, asked.Load(), r.body)
		}
		n.post("/v1/chat/completions", chat("m", "scripted", ""))
	}
}

// TestABackendThatFailedARequestIsNotAskedAgain when no other one is left at the moment it looks for one.
func TestABackendThatFailedARequestIsNotAskedAgain(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 2})
	n := start(t, model("m", 2, f.URL())).ready()
	tried := n.e.Snapshot()[0].Backends[0].ID
	ticket, err := n.e.Queue(n.g.WishAfter("m", tried))
	if err == nil {
		ticket.Leave()
	}
	if !errors.Is(err, engine.ErrNotReady) {
		t.Errorf("it got a place at %s again: %v", tried, err)
	}
}

// TestARequestThatKillsEnginesIsNotHandedToAllOfThem: two may have met it by chance, no third one does.
func TestARequestThatKillsEnginesIsNotHandedToAllOfThem(t *testing.T) {
	var asked atomic.Int32
	u := scripted(t, func(http.ResponseWriter, *http.Request) { asked.Add(1); panic(http.ErrAbortHandler) })
	four := model("m", 1, u)
	four[0].Backends = append(four[0].Backends, engine.BackendSpec{}, engine.BackendSpec{}, engine.BackendSpec{})
	n := start(t, four).ready()
	wantError(t, n.post("/v1/chat/completions", chat("m", "scripted", "")), false, 502, "server_error", "engine_broke_off")
	if asked.Load() != 2 {
		t.Errorf("%d engines were asked", asked.Load())
	}
}

// TestNoRetryAfterTheFirstByte: once an engine has begun to answer, its failure is the client's to know.
func TestNoRetryAfterTheFirstByte(t *testing.T) {
	var asked atomic.Int32
	u := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		stream(w, `data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}`)
		panic(http.ErrAbortHandler)
	})
	two := model("m", 1, u)
	two[0].Backends = append(two[0].Backends, engine.BackendSpec{})
	n := start(t, two).ready()
	wantError(t, n.post("/v1/chat/completions", chat("m", "scripted", "")), false, 502, "server_error", "engine_broke_off")
	n.post("/v1/chat/completions", chat("m", "scripted", `,"stream":true`))
	if asked.Load() != 2 {
		t.Errorf("%d requests for two", asked.Load())
	}
}

// TestA400IsNotTriedElsewhere: a fault of the client's stays one.
func TestA400IsNotTriedElsewhere(t *testing.T) {
	var asked atomic.Int32
	u := scripted(t, func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); w.WriteHeader(400) })
	two := model("m", 1, u)
	two[0].Backends = append(two[0].Backends, engine.BackendSpec{})
	n := start(t, two).ready()
	wantError(t, n.post("/v1/chat/completions", chat("m", "scripted", "")), false, 400, "invalid_request_error", "")
	if asked.Load() != 1 {
		t.Errorf("%d tries", asked.Load())
	}
}

// TestASeatGrantedAsThePatienceEndsIsTaken: that the time is over by then takes it from nobody.
func TestASeatGrantedAsThePatienceEndsIsTaken(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 4})
	n := start(t, model("m", 4, f.URL()), func(c *gateway.Config) { c.QueueTimeout = time.Nanosecond }).ready()
	for i := range 20 {
		if got := n.post("/v1/chat/completions", chat("m", "hi", `,"max_tokens":1`)); got.status != 200 {
			t.Fatalf("request %d: %d %s", i, got.status, got.body)
		}
	}
}

// TestWhereNobodyHasAModelThatIsSaid: it may be so for a moment only, as when the one node that has it was killed.
func TestWhereNobodyHasAModelThatIsSaid(t *testing.T) {
	n := start(t, nil)
	doc := wantError(t, n.post("/v1/chat/completions", chat("m", "hi", "")), false, 404, "invalid_request_error", "model_not_found")
	if msg := at(doc, "error", "message").(string); !strings.Contains(msg, "no node that answers serves any model now") {
		t.Error(msg)
	}
}
