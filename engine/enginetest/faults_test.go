package enginetest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/engine/enginetest"
)

// fake is a server with faults to set and counters to read, and the target that talks to it.
func fake(t *testing.T, o enginetest.Options) (*enginetest.Server, target) {
	t.Helper()
	s := enginetest.New(o)
	t.Cleanup(s.Close)
	return s, target{t, s.URL(), o.Key, o.SaveDir}
}

func TestSilentServerFreezesAndThaws(t *testing.T) {
	s, tg := fake(t, enginetest.Options{Slots: 2, DecodeTPS: 500})
	running := tg.open(chatPath, chat("a", 400, "stream", true))
	running.next(`"content":"`)
	s.SetFaults(enginetest.Faults{Silent: true})
	answered := make(chan reply)
	go func() { answered <- tg.post(chatPath, chat("b", 2)) }()
	within(t, 5*time.Second, "the second request is there", func() bool { return s.Stats().Active == 2 })
	if r := tg.do("GET", "/health", nil); r.status != 200 {
		t.Errorf("health of a silent server: %d", r.status)
	}
	select {
	case r := <-answered:
		t.Errorf("a silent server answered %d", r.status)
	case <-time.After(200 * time.Millisecond):
	}
	s.SetFaults(enginetest.Faults{})
	if r := <-answered; r.status != 200 {
		t.Errorf("after the thaw: %d %s", r.status, r.body)
	}
	running.next("[DONE]")
}

func TestCrashCutsStreams(t *testing.T) {
	s, tg := fake(t, enginetest.Options{Slots: 2, DecodeTPS: 500})
	st := tg.open(chatPath, chat("a", 4000, "stream", true))
	st.next(`"content":"`)
	s.Crash()
	for st.events.Scan() {
		if strings.Contains(st.events.Text(), "[DONE]") {
			t.Fatal("a crashed stream ended well")
		}
	}
	if st.events.Err() == nil {
		t.Error("a crashed stream ended without an error")
	}
	within(t, 5*time.Second, "the slot is free", func() bool { return s.Stats().Active == 0 })
	if s.Stats().Failed != 1 {
		t.Errorf("%+v", s.Stats())
	}
}

func TestCrashAfterCutsInTheMiddleOfAChunk(t *testing.T) {
	s, tg := fake(t, enginetest.Options{})
	s.SetFaults(enginetest.Faults{CrashAfter: 3})
	st := tg.open(chatPath, chat("a", 10, "stream", true))
	data, err := io.ReadAll(st.resp.Body)
	if err == nil || strings.HasSuffix(string(data), "\n\n") || strings.Count(string(data), `"content":"`) != 3 {
		t.Errorf("error %v, ends with %q", err, data[max(0, len(data)-30):])
	}
}

func TestErrorAfterHasEachRoutesShape(t *testing.T) {
	s, tg := fake(t, enginetest.Options{})
	s.SetFaults(enginetest.Faults{ErrorAfter: 2})
	plain := `data: {"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}` + "\n\n"
	for path, want := range map[string]string{
		chatPath: plain, "/v1/completions": plain, "/v1/responses": plain, "/completion": plain,
		"/v1/messages": "event: error\n" + `data: {"code":500,"message":"Context size has been exceeded.","type":"server_error"}` + "\n\n",
	} {
		b := chat("a", 10, "prompt", "a", "input", "a", "n_predict", 10)
		if r := tg.post(path, b); r.status != 500 || at(r.json(t), "error", "type") != "server_error" {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
		b["stream"] = true
		if r := tg.post(path, b); r.status != 200 || !strings.HasSuffix(string(r.body), want) {
			t.Errorf("%s ends with %q", path, r.body[max(0, len(r.body)-200):])
		}
	}
}

func TestOtherFaults(t *testing.T) {
	s, tg := fake(t, enginetest.Options{})
	s.SetFaults(enginetest.Faults{Garbage: true})
	if r := tg.post(chatPath, chat("a", 2)); json.Valid(r.body) {
		t.Errorf("garbage that is JSON: %q", r.body)
	}
	if r := tg.do("GET", "/health", nil); r.status != 200 {
		t.Errorf("health beside garbage: %d", r.status)
	}
	s.SetFaults(enginetest.Faults{Fail: 503})
	if r := tg.post(chatPath, chat("a", 2)); r.status != 503 {
		t.Errorf("fail: %d", r.status)
	}
	s.SetFaults(enginetest.Faults{Down: true})
	if resp, err := client.Do(tg.request(t.Context(), "GET", "/health", nil)); err == nil {
		resp.Body.Close()
		t.Error("a server that is down answered")
	}
	s.SetFaults(enginetest.Faults{HealthHang: true})
	ctx := tg.request(t.Context(), "GET", "/health", nil)
	quick := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 100 * time.Millisecond}
	if resp, err := quick.Do(ctx); err == nil {
		resp.Body.Close()
		t.Error("a hanging health route answered")
	}
	if r := tg.post(chatPath, chat("a", 2)); r.status != 200 {
		t.Errorf("inference beside a hanging health route: %d", r.status)
	}
	s.SetFaults(enginetest.Faults{})
	s.SetLoading(true)
	if r := tg.do("GET", "/health", nil); r.status != 503 || at(r.json(t), "error", "message") != "Loading model" {
		t.Errorf("loading: %d %s", r.status, r.body)
	}
}

func TestStatsCountOversubscription(t *testing.T) {
	s, tg := fake(t, enginetest.Options{Slots: 1, DecodeTPS: 400})
	st := tg.open(chatPath, chat("a", 4000, "stream", true))
	st.next(`"content":"`)
	if n := s.Stats().Oversubscribed; n != 0 {
		t.Errorf("one request on one slot counts as %d too many", n)
	}
	done := make(chan reply)
	go func() { done <- tg.post(chatPath, chat("b", 2)) }()
	within(t, 5*time.Second, "the second waits", func() bool { return s.Stats().Queued == 1 })
	st.close()
	if r := <-done; r.status != 200 {
		t.Errorf("the second: %d", r.status)
	}
	within(t, 5*time.Second, "both are accounted for", func() bool { return s.Stats().Active == 0 })
	got := s.Stats()
	if got.Oversubscribed != 1 || got.MaxActive != 2 || got.Cancelled != 1 || got.Queued != 0 || got.Active != 0 || got.Served != 1 {
		t.Errorf("%+v", got)
	}
}

func TestRequestsAreRememberedAndBounded(t *testing.T) {
	s, tg := fake(t, enginetest.Options{KeepRequests: 3, KeepBodies: true})
	for _, text := range []string{"a", "b", "c", "d"} {
		req := tg.request(t.Context(), "POST", "/tokenize?x="+text, body{"content": text})
		req.Header.Set("X-Test", text)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	var got []string
	for _, r := range s.Requests() {
		got = append(got, r.Method+r.Path+r.Query+r.Header.Get("X-Test")+string(r.Body))
	}
	want := `POST/tokenizex=bb{"content":"b"} POST/tokenizex=cc{"content":"c"} POST/tokenizex=dd{"content":"d"}`
	if strings.Join(got, " ") != want {
		t.Errorf("remembered %q", got)
	}
}

func TestReplyIsAnsweredWhole(t *testing.T) {
	_, tg := fake(t, enginetest.Options{Reply: "Grüße, 世界 <&>"})
	r := tg.post(chatPath, body{"messages": user("hi")}).json(t)
	if at(r, "choices", "message", "content") != "Grüße, 世界 <&>" || at(r, "choices", "finish_reason") != "stop" {
		t.Errorf("%v", r)
	}
	streamed := tg.post(chatPath, body{"messages": user("hi"), "stream": true})
	var text strings.Builder
	for line := range strings.Lines(string(streamed.body)) {
		var v any
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &v) == nil {
			piece, _ := at(v, "choices", "delta", "content").(string)
			text.WriteString(piece)
		}
	}
	if text.String() != "Grüße, 世界 <&>" {
		t.Errorf("streamed %q", text.String())
	}
}

// recorder is a response writer without a connection, for use inside a bubble of fake time.
type recorder struct {
	header http.Header
	status int
	body   strings.Builder
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

func TestWorkTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := enginetest.New(enginetest.Options{PrefillTPS: 100, DecodeTPS: 10, Speed: 2})
		defer s.Close()
		payload := `{"prompt":"` + strings.Repeat("x", 1000) + `","max_tokens":41,"ignore_eos":true}`
		r, err := http.NewRequestWithContext(t.Context(), "POST", "/completion", strings.NewReader(payload))
		if err != nil {
			t.Fatal(err)
		}
		w := &recorder{header: http.Header{}}
		began := time.Now()
		s.Handler().ServeHTTP(w, r)
		if took := time.Since(began); took != 7*time.Second {
			t.Errorf("1000 tokens at 100/s and 40 more at 10/s, twice as fast: %s, want 7s", took)
		}
		var v any
		if err := json.Unmarshal([]byte(w.body.String()), &v); err != nil {
			t.Fatal(err)
		}
		if intAt(v, "timings", "prompt_ms") != 10000 || intAt(v, "timings", "predicted_ms") != 4000 {
			t.Errorf("timings %v", at(v, "timings"))
		}
	})
}

// TestJournalTellsHowEachInferenceEnded, and nothing of what was no inference or is under way.
func TestJournalTellsHowEachInferenceEnded(t *testing.T) {
	s, tg := fake(t, enginetest.Options{Slots: 2, DecodeTPS: 500})
	tg.post(chatPath, chat("a", 2))
	tg.do("GET", "/health", nil)
	left := tg.open(chatPath, chat("b", 4000, "stream", true))
	left.next(`"content":"`)
	left.close()
	within(t, 5*time.Second, "the leaving is noticed", func() bool { return s.Stats().Cancelled == 1 })
	s.SetFaults(enginetest.Faults{Fail: 500})
	tg.post(chatPath, chat("c", 2))
	s.SetFaults(enginetest.Faults{})
	running := tg.open(chatPath, chat("d", 4000, "stream", true))
	running.next(`"content":"`)
	var got []enginetest.Fate
	for _, seen := range s.Requests() {
		got = append(got, seen.Fate)
	}
	running.close()
	if want := []enginetest.Fate{enginetest.Served, "", enginetest.Cancelled, enginetest.Failed, ""}; !slices.Equal(got, want) {
		t.Errorf("the journal says %q, want %q", got, want)
	}
}
