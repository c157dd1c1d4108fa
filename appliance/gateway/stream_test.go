package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"viiwork/appliance/gateway"
	"viiwork/appliance/mesh"
	"viiwork/engine"
	"viiwork/engine/enginetest"
)

// TestABrokenStreamNeverLooksComplete: whatever happens to the engine after its first byte, the client's last event is
// an error in its API's shape.
func TestABrokenStreamNeverLooksComplete(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 32, DecodeTPS: 500})
	n := start(t, model("m", 32, f.URL())).ready()
	for _, fault := range []enginetest.Faults{{CrashAfter: 3}, {ErrorAfter: 3}} {
		f.SetFaults(fault)
		for _, path := range []string{"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses", "/infill"} {
			body := ask(path, "m", `,"max_output_tokens":40,"n_predict":40,"input_prefix":"a","input_suffix":"b"`)
			body = strings.Replace(body, `"max_tokens":4`, `"max_tokens":40`, 1)
			r := n.post(path, strings.TrimSuffix(body, "}")+`,"stream":true}`)
			ev := events(r.body)
			if r.status != 200 || r.err != nil || len(ev) < 2 {
				t.Errorf("%s %+v: %d %v %.400s", path, fault, r.status, r.err, r.body)
				continue
			}
			last := ev[len(ev)-1]
			if at(last.json(), "error", "message") == nil {
				t.Errorf("%s %+v: the last event is %+v", path, fault, last)
			}
			if (path == "/v1/messages" || path == "/v1/responses") && (last.name != "error" || at(last.json(), "type") != "error") {
				t.Errorf("%s: not the API's error event: %+v", path, last)
			}
			for _, mark := range []string{"[DONE]", `"finish_reason":"`, "message_stop", "response.completed"} {
				if strings.Contains(string(r.body), mark) {
					t.Errorf("%s: a broken stream has %s", path, mark)
				}
			}
			wantError(t, n.post(path, body), path == "/v1/messages", 502, "server_error", "")
		}
	}
	for _, r := range n.g.Requests(1000) {
		if r.Status < 500 || r.Error == "" {
			t.Errorf("row %+v", r)
		}
	}
}

func TestAnEndWithoutDoneIsCleanOnlyAfterTheFinish(t *testing.T) {
	finish := `data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}`
	for _, c := range []struct {
		name   string
		events []string
		clean  bool
	}{
		{"finished", []string{finish}, true},
		{"not finished", []string{`data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}`}, false},
		{"nothing", nil, false},
		{"only null", []string{"data: null"}, false},
		{"half an event", []string{finish[:40]}, false},
		{"done", []string{"data: null", ": ping", "data: {\"choices\":[]}", "data: [DONE]"}, true},
	} {
		u := scripted(t, func(w http.ResponseWriter, _ *http.Request) { stream(w, c.events...) })
		n := start(t, model("m", 4, u)).ready()
		r := n.post("/v1/chat/completions", chat("m", "scripted", `,"stream":true`))
		clean := r.status == 200 && !strings.Contains(string(r.body), `"error"`)
		if clean != c.clean || strings.Contains(string(r.body), "null\n\n") && !c.clean {
			t.Errorf("%s: %d %s", c.name, r.status, r.body)
		}
	}
}

// TestABadAnswerIsAnErrorAlsoWhenTheEngineLingers: what ends the engine's connection then is not the client.
func TestABadAnswerIsAnErrorAlsoWhenTheEngineLingers(t *testing.T) {
	u := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		stream(w, "data: {}", "data: [DONE]")
		<-r.Context().Done()
	})
	n := start(t, model("m", 1, u)).ready()
	wantError(t, n.post("/v1/messages", ask("/v1/messages", "m", `,"x":"scripted"`)), true, 502, "api_error", "")
	freed(n)
}

// TestEventsPassAtOnce: an event is with the client before the engine sends the next.
func TestEventsPassAtOnce(t *testing.T) {
	next := make(chan struct{})
	u := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		for range 5 {
			stream(w, `data: {"choices":[{"index":0,"delta":{"content":"piece"},"finish_reason":null}]}`)
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
		stream(w, "data: [DONE]")
	})
	n := start(t, model("m", 1, u)).ready()
	resp, leave := n.open("/v1/chat/completions", chat("m", "scripted", `,"stream":true`))
	defer leave()
	for range 5 {
		readUntil(t, resp.Body, "piece")
		next <- struct{}{}
	}
	readUntil(t, resp.Body, "[DONE]")
}

// TestEnginesMayWriteTheirJSONAsTheyLike: with or without spaces an event means the same.
func TestEnginesMayWriteTheirJSONAsTheyLike(t *testing.T) {
	u := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		stream(w, `data: {"prompt_progress" : {"total": 5, "cache": 3}, "choices": []}`,
			`data: {"choices": [{"index": 0, "delta": {"content": "finish_reason"}, "finish_reason": null}], "error": null, "usage": null}`,
			`data: {"choices": [{"index": 0, "delta": {}, "finish_reason" : "stop"}]}`,
			`data: {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}}}`)
	})
	n := start(t, model("m", 2, u)).ready()
	r := n.post("/v1/chat/completions", chat("m", "scripted", `,"stream":true`), "X-Viiwork-Task", "spaced")
	if ev := events(r.body); len(ev) != 3 || said(ev) != "finish_reason" || strings.Contains(string(r.body), "prompt_progress") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if row := n.row("spaced", "done"); row.Status != 200 || *row.CachedTokens != 3 || *row.OutputTokens != 2 {
		t.Errorf("row %+v", row)
	}
	u = scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		stream(w, `data: {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": null}]}`, `data: {"error" : {"message": "so it is", "code": 500}}`, "data: [DONE]")
	})
	n = start(t, model("m", 2, u)).ready()
	r = n.post("/v1/chat/completions", chat("m", "scripted", `,"stream":true`))
	ev := events(r.body)
	if at(ev[len(ev)-1].json(), "error", "message") != "so it is" || strings.Contains(string(r.body), "[DONE]") {
		t.Errorf("%s", r.body)
	}
}

// TestBytesPassUntouched: what an engine sends of its answer is what the client gets.
func TestBytesPassUntouched(t *testing.T) {
	sent := []string{
		`data: {"choices":[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}],"x":1.0}`,
		`data:  {"choices": [{"delta":{"content":"say \"prompt_progress\": \\n é"}}]}`,
		"id: 7\ndata: {\"unknown\":{\"prompt_progress\":{}}}",
		`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3}}}`,
		`data: [DONE]`,
	}
	u := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Server", "engine")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		stream(w, append([]string{`data: {"choices":[],"prompt_progress":{"total":5,"cache":3,"processed":3}}`, ": ping"}, sent...)...)
	})
	n := start(t, model("m", 1, u)).ready()
	r := n.post("/v1/chat/completions", chat("m", "scripted", `,"stream":true`), "X-Viiwork-Task", "raw")
	if want := strings.Join(sent, "\n\n") + "\n\n"; string(r.body) != want {
		t.Errorf("got\n%s\nwant\n%s", r.body, want)
	}
	if r.head.Get("Server") != "" || r.head.Get("Access-Control-Allow-Origin") != "" || r.head.Get("Content-Type") != "text/event-stream" {
		t.Errorf("headers %v", r.head)
	}
	row := n.row("raw", "done")
	if *row.PromptTokens != 5 || *row.CachedTokens != 3 || *row.OutputTokens != 2 {
		t.Errorf("row %+v", row)
	}
}

func TestProgressIsForThoseWhoAsk(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 1})
	n := start(t, model("m", 1, f.URL())).ready()
	for _, path := range []string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/infill"} {
		body := ask(path, "m", `,"input_prefix":"a","input_suffix":"b","n_predict":4,"stream":true`)
		if r := n.post(path, body); r.status != 200 || strings.Contains(string(r.body), "prompt_progress") {
			t.Errorf("%s: progress nobody asked for: %d %s", path, r.status, r.body)
		}
		r := n.post(path, strings.TrimSuffix(body, "}")+`,"return_progress":true}`)
		if !strings.Contains(string(r.body), "prompt_progress") {
			t.Errorf("%s: no progress: %s", path, r.body)
		}
	}
	r := n.post("/v1/responses", ask("", "m", `,"stream":true`))
	if ev := events(r.body); len(ev) < 3 || ev[0].name != "response.created" || ev[1].name != "response.in_progress" || ev[2].name == "response.in_progress" {
		t.Errorf("responses begin with %s", r.body)
	}
}

// homely gives session "s" a home at a node alone. Its requests look for a seat for a minute, though they get keep-alives soon:
// others are refused after a time in which a busy machine may not get to a slot that is free.
func homely(c *gateway.Config) {
	c.QueueTimeout, c.WarmWait, c.KeepAlive = 100*time.Millisecond, time.Minute, 10*time.Millisecond
	c.SessionKey = func() []byte { return sessionKey }
	c.Known = mesh.NewRegister(mesh.RegisterConfig{})
	digest := gateway.SessionDigest(gateway.New(gateway.Config{SessionKey: c.SessionKey}), "s")
	c.Known.Went("m", digest, "X-Session-Id", mesh.Spot{Backend: "m#0"})
}

// TestAWaitingStreamIsKeptAlive: after the queue's time the status line goes out and something comes often, in the
// form that the API's clients take; what is known only later comes as trailers.
func TestAWaitingStreamIsKeptAlive(t *testing.T) {
	for path, mark := range map[string]string{"/v1/chat/completions": ": waiting", "/v1/completions": ": waiting", "/v1/messages": `{"type":"ping"}`, "/v1/responses": `"type":"response.in_progress"`} {
		t.Run(path, func(t *testing.T) {
			let := make(chan struct{})
			u := scripted(t, func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-let:
				case <-r.Context().Done():
				}
				panic(http.ErrAbortHandler)
			})
			n := start(t, model("m", 1, u), homely).ready()
			resp, leave := n.open(path, ask(path, "m", `,"stream":true,"x":"scripted"`), "X-Session-Id", "s")
			defer leave()
			if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
				t.Fatalf("status %d %v", resp.StatusCode, resp.Header)
			}
			for range 3 {
				readUntil(t, resp.Body, mark)
			}
			close(let)
			rest, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			ev := events(rest)
			if at(ev[len(ev)-1].json(), "error") == nil || strings.Contains(string(rest), "[DONE]") {
				t.Errorf("the failure is no error event: %s", rest)
			}
		})
	}
}

func TestKeepAlivesOfResponsesBeginWithOneCreated(t *testing.T) {
	let := make(chan struct{})
	u := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-let:
		case <-r.Context().Done():
		}
		stream(w, "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\"}}",
			"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\"}}")
	})
	n := start(t, model("m", 1, u), homely).ready()
	resp, leave := n.open("/v1/responses", `{"model":"m","input":"scripted","stream":true}`, "X-Session-Id", "s")
	defer leave()
	head := make([]byte, 24)
	if _, err := io.ReadFull(resp.Body, head); err != nil || string(head) != "event: response.created\nd" && !strings.HasPrefix(string(head), "event: response.created") {
		t.Fatalf("begins with %q (%v)", head, err)
	}
	close(let)
	rest, _ := io.ReadAll(resp.Body)
	if strings.Contains(string(rest), "event: response.created") || !strings.HasSuffix(string(rest), "\"id\":\"resp_1\"}}\n\n") {
		t.Errorf("rest %s", rest)
	}
}

func TestLateHeadersComeAsTrailers(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 1, DecodeTPS: 50})
	n := start(t, model("m", 1, f.URL()), homely).ready()
	hold, leave := n.open("/v1/chat/completions", long("m", "hold")+`,"stream":true}`, "X-Session-Id", "s")
	readUntil(t, hold.Body, "content")
	resp, left := n.open("/v1/chat/completions", chat("m", "home", `,"stream":true`), "X-Session-Id", "s") // its home is worth waiting for
	defer left()
	first := make([]byte, len(": waiting"))
	if _, err := io.ReadFull(resp.Body, first); err != nil || resp.StatusCode != 200 || string(first) != ": waiting" {
		t.Fatalf("%d begins with %q (%v)", resp.StatusCode, first, err)
	}
	leave() // it has held the slot until the other was told to wait
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasSuffix(string(rest), "[DONE]\n\n") {
		t.Fatalf("%v %s", err, rest)
	}
	head, trailer := resp.Header, resp.Trailer
	if head.Get("X-Viiwork-Backend") != "" || trailer.Get("X-Viiwork-Backend") != "m#0" || trailer.Get("X-Viiwork-Route") != "wait" || trailer.Get("X-Viiwork-Queue-Ms") == "" || head.Get("X-Viiwork-Key") != "X-Session-Id" {
		t.Errorf("headers %v trailers %v", head, trailer)
	}
}

func TestASilentEngineIs504(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 1})
	n := startWatched(t, engine.HealthConfig{Interval: 20 * time.Millisecond, Stall: 200 * time.Millisecond}, model("m", 1, f.URL())).ready()
	f.SetFaults(enginetest.Faults{Silent: true})
	wantError(t, n.post("/v1/messages", ask("", "m", "")), true, 504, "", "engine_silent")
	f.SetFaults(enginetest.Faults{})
	n.ready()
	f.SetFaults(enginetest.Faults{Silent: true})
	wantError(t, n.post("/v1/chat/completions", chat("m", "x", `,"stream":true`)), false, 504, "server_error", "engine_silent")
}
