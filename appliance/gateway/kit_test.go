package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"go.uber.org/goleak"

	"viiwork/appliance/gateway"
	"viiwork/appliance/status"
	"viiwork/engine"
	"viiwork/engine/enginetest"
	"viiwork/engine/llama"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a gateway over a real engine core with external backends, behind a real listener.
type node struct {
	t      testing.TB
	g      *gateway.Gateway
	e      *engine.Engine
	url    string
	client *http.Client
}

// model is an external model of one or more backends.
func model(name string, slots int, urls ...string) []engine.Model {
	models := make([]engine.Model, 0, len(urls))
	for _, u := range urls {
		models = append(models, engine.Model{Name: name, Runner: engine.RunnerExternal, URL: u, Backends: []engine.BackendSpec{{}}, Context: 8192, Parallel: slots})
	}
	return models
}

// start runs a node with these models; change may alter its configuration. Everything ends with the test.
func start(t testing.TB, models []engine.Model, change ...func(*gateway.Config)) *node {
	t.Helper()
	return startWatched(t, engine.HealthConfig{}, models, change...)
}

func startWatched(t testing.TB, health engine.HealthConfig, models []engine.Model, change ...func(*gateway.Config)) *node {
	t.Helper()
	n := &node{t: t, client: &http.Client{Transport: &http.Transport{}}}
	dialer := &http.Client{Transport: &http.Transport{}}
	var err error
	n.e, err = engine.New(engine.Config{Node: "one", Health: health, Dialect: llama.New(dialer)})
	if err != nil {
		t.Fatal(err)
	}
	n.e.Apply(models)
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() { defer close(over); _ = n.e.Run(ctx) }()
	cfg := gateway.Config{Node: "one", Version: "test", Engine: n.e, Trusted: func(*http.Request) bool { return true }}
	for _, f := range change {
		f(&cfg)
	}
	n.g = gateway.New(cfg)
	web := echo.New()
	n.g.Mount(web)
	srv := httptest.NewServer(web)
	n.url = srv.URL
	t.Cleanup(func() {
		n.client.CloseIdleConnections()
		srv.Close()
		cancel()
		<-over
		dialer.CloseIdleConnections()
	})
	return n
}

// ready waits until every backend of the node is.
func (n *node) ready() *node {
	n.t.Helper()
	n.until("all backends ready", func() bool {
		for _, m := range n.e.Snapshot() {
			for _, b := range m.Backends {
				if b.State != engine.StateReady {
					return false
				}
			}
		}
		return true
	})
	return n
}

// until waits for something that must come to pass; the limit only ends a test that has failed already.
func (n *node) until(what string, cond func() bool) {
	n.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if cond() {
			return
		}
	}
	n.t.Fatalf("never: %s", what)
}

// reply is a whole answer.
type reply struct {
	status  int
	head    http.Header
	body    []byte
	trailer http.Header
	err     error
}

func (n *node) request(method, path, body string, head ...string) *http.Request {
	n.t.Helper()
	req, err := http.NewRequest(method, n.url+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	for i := 0; i+1 < len(head); i += 2 {
		if head[i] == "Host" {
			req.Host = head[i+1]
			continue
		}
		req.Header.Set(head[i], head[i+1])
	}
	return req
}

func (n *node) do(method, path, body string, head ...string) reply {
	n.t.Helper()
	return n.send(n.request(method, path, body, head...))
}

func (n *node) send(req *http.Request) reply {
	resp, err := n.client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, b, resp.Trailer, err}
}

func (n *node) post(path, body string, head ...string) reply {
	n.t.Helper()
	return n.do("POST", path, body, head...)
}

// open sends a request and leaves its answer to be read; leave ends it as a client that goes away does.
func (n *node) open(path, body string, head ...string) (resp *http.Response, leave func()) {
	n.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	resp, err := n.client.Do(n.request("POST", path, body, head...).WithContext(ctx))
	if err != nil {
		cancel()
		n.t.Fatal(err)
	}
	return resp, func() { cancel(); resp.Body.Close() }
}

// row waits for the only row of a task to be in a state.
func (n *node) row(task, state string) status.Request {
	n.t.Helper()
	var found status.Request
	n.until("a row of task "+task+" that is "+state, func() bool {
		for _, r := range n.g.Requests(1000) {
			if r.Task == task && r.State == state {
				found = r
				return true
			}
		}
		return false
	})
	return found
}

func (r reply) json(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(r.body, &v); err != nil {
		t.Fatalf("status %d, not JSON: %v: %.300s", r.status, err, r.body)
	}
	return v
}

// at walks into decoded JSON; nil where there is nothing.
func at(v any, path ...any) any {
	for _, p := range path {
		switch k := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[k]
		case int:
			l, _ := v.([]any)
			if k < 0 {
				k += len(l)
			}
			if k < 0 || k >= len(l) {
				return nil
			}
			v = l[k]
		}
	}
	return v
}

// event is one server-sent event.
type event struct {
	name string
	data string
}

func (e event) json() any {
	var v any
	_ = json.Unmarshal([]byte(e.data), &v)
	return v
}

// events takes a stream apart, comments left out.
func events(b []byte) []event {
	var out []event
	for _, block := range strings.Split(string(b), "\n\n") {
		var e event
		for _, line := range strings.Split(block, "\n") {
			if s, ok := strings.CutPrefix(line, "data: "); ok {
				e.data += s
			}
			if s, ok := strings.CutPrefix(line, "event: "); ok {
				e.name = s
			}
		}
		if e.data != "" {
			out = append(out, e)
		}
	}
	return out
}

// said joins the text of a chat stream.
func said(ev []event) string {
	var b strings.Builder
	for _, e := range ev {
		s, _ := at(e.json(), "choices", 0, "delta", "content").(string)
		b.WriteString(s)
	}
	return b.String()
}

// readUntil reads a stream up to the first line that holds mark.
func readUntil(t *testing.T, r io.Reader, mark string) {
	t.Helper()
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if strings.Contains(line, mark) {
			return
		}
		if err != nil {
			t.Fatalf("the stream ended before %q: %v", mark, err)
		}
	}
}

// readMarks reads a stream up to the line that is the nth to hold mark, and gives what it has read.
func readMarks(t *testing.T, lines *bufio.Reader, mark string, n int) (text []byte) {
	t.Helper()
	for n > 0 {
		line, err := lines.ReadBytes('\n')
		if text = append(text, line...); err != nil {
			t.Fatalf("the stream ended %d times %q before its time: %v: %s", n, mark, err, text)
		}
		if bytes.Contains(line, []byte(mark)) {
			n--
		}
	}
	return text
}

func chat(model, text string, more string) string {
	msg, _ := json.Marshal(text)
	return `{"model":"` + model + `","messages":[{"role":"user","content":` + string(msg) + `}],"max_tokens":8` + more + `}`
}

// scripted is an upstream that answers inference with fixed bytes and behaves enough to become ready.
func scripted(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	fake := enginetest.New(enginetest.Options{Slots: 8})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Method == "POST" && bytes.Contains(body, []byte("scripted")) {
			h(w, r)
			return
		}
		fake.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close(); fake.Close() })
	return srv.URL
}

func stream(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		_, _ = io.WriteString(w, e+"\n\n")
		_ = http.NewResponseController(w).Flush()
	}
}

func fake(t *testing.T, o enginetest.Options) *enginetest.Server {
	t.Helper()
	s := enginetest.New(o)
	t.Cleanup(s.Close)
	return s
}

// json0 is json of any kind of document.
func (r reply) json0(t *testing.T) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(r.body, &v); err != nil {
		t.Fatalf("not JSON: %v: %.300s", err, r.body)
	}
	return v
}

func (r reply) into(v any) { _ = json.Unmarshal(r.body, v) }
