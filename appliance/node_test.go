package appliance_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"viiwork/appliance"
	"viiwork/appliance/config"
	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
)

// node is a node in this process, over a fake engine.
type node struct {
	*appliance.Appliance
	url, dir string
	fake     *enginetest.Server
	stop     context.CancelFunc
	ended    chan error
}

// newNode starts a node whose model m is served by a fake engine, with extra lines of configuration.
func newNode(t *testing.T, extra string) *node {
	t.Helper()
	// Checked last, when node, engine and clients have ended. Gossip that has been stopped finishes the probe it is at.
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		goleak.VerifyNone(t, before)
	})
	n := &node{dir: t.TempDir(), ended: make(chan error, 1)}
	n.fake = enginetest.New(enginetest.Options{Slots: 2, Model: "m", Context: 1 << 16, DecodeTPS: 200, ReplyTokens: 1 << 20})
	t.Cleanup(n.fake.Close)
	cfg, err := config.Parse("viiwork.yaml", []byte(nodeConfig(n.fake.URL(), n.dir)+extra), nil)
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan string, 1)
	n.Appliance, err = appliance.New(cfg, appliance.Options{Version: "test", Log: slog.New(slog.DiscardHandler), Ready: func(a ...string) { ready <- "http://" + a[0] }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	go func() { n.ended <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		n.Abort()
		if err := <-n.ended; err != nil {
			t.Errorf("the node ended with %v", err)
		}
	})
	select {
	case n.url = <-ready:
	case err := <-n.ended:
		n.ended <- nil
		t.Fatal(err)
	}
	waitReady(t, n.url)
	return n
}

func TestHealthAndReadiness(t *testing.T) {
	n := newNode(t, "")
	for _, path := range []string{"/healthz", "/readyz", "/v1/status", "/v1/models", "/v1/models/m", "/api/requests"} {
		answer, err := http.Get(n.url + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK || !strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json") {
			t.Errorf("%s: %d %s", path, answer.StatusCode, answer.Header.Get("Content-Type"))
		}
	}
}

// TestStatusPagesNeverNeedASlot: all seats taken, somebody in the line, and an engine that answers nothing at all.
func TestStatusPagesNeverNeedASlot(t *testing.T) {
	n := newNode(t, "")
	n.fake.SetFaults(enginetest.Faults{Silent: true, HealthHang: true})
	ctx, leave := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer leave()
	for range 3 { // two seats
		clients.Go(func() {
			body := strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`)
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, n.url+"/v1/chat/completions", body)
			if answer, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		})
	}
	full := func() bool {
		m := n.Status().Models[0]
		slots := m.Backends[0].Slots
		return m.Waiting == 1 && !slices.ContainsFunc(slots, func(s status.Slot) bool { return s.State != "busy" })
	}
	for deadline := time.Now().Add(time.Minute); !full(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the house is never full: %+v", n.Status().Models)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/v1/status", "/v1/models", "/v1/models/m", "/api/requests", "/"} {
		answer, err := http.Get(n.url + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", path, answer.StatusCode)
		}
	}
	if !full() {
		t.Errorf("it is not full any more, so nothing was shown: %+v", n.Status().Models)
	}
}

// TestSteeringNeedsTheSocket: what changes the node is refused on the port and works on the socket.
func TestSteeringNeedsTheSocket(t *testing.T) {
	n := newNode(t, "")
	answer, err := http.Post(n.url+"/api/drain", "application/json", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden || n.Status().State != "ready" {
		t.Errorf("over the port: %d, the node is %s", answer.StatusCode, n.Status().State)
	}
	local := socketClient(n.dir)
	for _, step := range []struct{ body, want string }{{`{}`, "draining"}, {`{"off":false}`, "draining"}, {`{"off":true}`, "ready"}} {
		answer, err := local.Post("http://viiwork/api/drain", "application/json", strings.NewReader(step.body))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != 200 || n.Status().State != step.want {
			t.Errorf("%s: %d %s, the node is %s, want %s", step.body, answer.StatusCode, text, n.Status().State, step.want)
		}
	}
	info, err := os.Stat(appliance.SocketPath(filepath.Join(n.dir, "state")))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v (%v), want 0600", info.Mode(), err)
	}
}

// streaming asks for a stream of so many tokens and returns once it has begun.
func (n *node) streaming(t *testing.T, tokens int) *http.Response {
	t.Helper()
	body := fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":%d,"ignore_eos":true,"messages":[{"role":"user","content":"x"}]}`, tokens)
	answer, err := http.Post(n.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	if _, err := io.ReadFull(answer.Body, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	return answer
}

// TestDrainLetsStreamsFinish: a stream running at SIGTERM is answered to its end, a new request is not begun; that the
// node was told to drain before, and more than once, changes nothing.
func TestDrainLetsStreamsFinish(t *testing.T) {
	n := newNode(t, "")
	n.fake.SetFaults(enginetest.Faults{Slow: time.Second}) // else it has ended before a busy machine gets to the next line
	answer := n.streaming(t, 100)
	n.fake.SetFaults(enginetest.Faults{Silent: true}) // it runs until the other has been refused, however slow this machine is
	n.Drain(true)
	n.Drain(true)
	n.stop()
	n.Drain(true)
	refused := false
	for deadline := time.Now().Add(30 * time.Second); !refused && time.Now().Before(deadline); {
		second, err := http.Post(n.url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"x"}]}`))
		if err != nil {
			break
		}
		refused = second.StatusCode == http.StatusServiceUnavailable && second.Header.Get("Retry-After") != ""
		second.Body.Close()
	}
	if !refused {
		t.Error("a request that came while draining was not refused with 503 and Retry-After")
	}
	n.fake.SetFaults(enginetest.Faults{})
	rest, err := io.ReadAll(answer.Body)
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(rest)), "[DONE]") {
		t.Errorf("the running stream ended with %v: %.200q", err, rest[max(0, len(rest)-200):])
	}
}

// TestDrainEndsWithAnErrorEvent: what runs longer than node.drain is told so.
func TestDrainEndsWithAnErrorEvent(t *testing.T) {
	n := newNode(t, "")
	answer := n.streaming(t, 60_000)
	n.stop()
	n.Abort()
	rest, _ := io.ReadAll(answer.Body)
	events := strings.Split(strings.TrimSpace(string(rest)), "\n\n")
	if last := events[len(events)-1]; !strings.Contains(last, `"node_stopped"`) || strings.Contains(string(rest), "[DONE]") {
		t.Errorf("the stream ends with %q", last)
	}
}

// TestTakenPortIsNamed: the error says which key to change.
func TestTakenPortIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	text := fmt.Sprintf("node: {name: n, state_dir: %q}\napi: {local: %q}\nmesh: {open: true}\nmodels: []\n", t.TempDir(), l.Addr())
	err = runOnce(t, text)
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()) || !strings.Contains(err.Error(), "api.local") {
		t.Errorf("got %v, want the address and api.local named", err)
	}
}

// TestWideHostCoversLocal: api.local is not opened a second time where api.host answers for it.
func TestWideHostCoversLocal(t *testing.T) {
	for _, host := range []string{"", "0.0.0.0", "::", "127.0.0.1"} {
		port := freePort()
		text := fmt.Sprintf("node: {name: n, state_dir: %q}\napi: {host: %q, port: %d, local: \"127.0.0.1:%d\"}\nmesh: {network: lan, bind_port: %d, open: true, lan: {mdns: false}}\nmodels: []\n",
			t.TempDir(), host, port, port, freePort())
		cfg, err := config.Parse("viiwork.yaml", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		a, err := appliance.New(cfg, appliance.Options{Version: "test", Log: slog.New(slog.DiscardHandler), Ready: func(a ...string) {
			if answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", port)); err != nil {
				t.Errorf("host %q: %v", host, err)
			} else {
				answer.Body.Close()
			}
			cancel()
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Run(ctx); err != nil {
			t.Errorf("host %q: %v", host, err)
		}
	}
}

// TestTailnetPagesMayAskWhereTheOwnerSaysSo: the key reaches the gateway.
func TestTailnetPagesMayAskWhereTheOwnerSaysSo(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		text := fmt.Sprintf("node: {name: n, state_dir: %q}\napi: {host: 127.0.0.1, port: %d, local: \"\", cors: {allow_tailnet_ips: %v}}\nmesh: {network: lan, bind_port: %d, open: true, lan: {mdns: false}}\nmodels: []\n",
			t.TempDir(), freePort(), allowed, freePort())
		cfg, err := config.Parse("viiwork.yaml", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		a, err := appliance.New(cfg, appliance.Options{Version: "test", Log: slog.New(slog.DiscardHandler), Ready: func(a ...string) {
			defer cancel()
			req, _ := http.NewRequest(http.MethodGet, "http://"+a[0]+"/v1/models", nil)
			req.Header.Set("Origin", "http://100.100.1.2:3000")
			answer, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			answer.Body.Close()
			if got := answer.Header.Get("Access-Control-Allow-Origin") != ""; got != allowed {
				t.Errorf("allow_tailnet_ips: %v, and a page of the tailnet is answered: %v", allowed, got)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
	}
}

// TestTwoNodesOneState: the second is refused and told what to do.
func TestTwoNodesOneState(t *testing.T) {
	n := newNode(t, "")
	text := fmt.Sprintf("node: {name: n, state_dir: %q}\napi: {local: \"\"}\nmesh: {open: true}\nmodels: []\n", filepath.Join(n.dir, "state"))
	if err := runOnce(t, text); err == nil || !strings.Contains(err.Error(), "another node uses") || !strings.Contains(err.Error(), "node.state_dir") {
		t.Errorf("got %v", err)
	}
}

// runOnce runs a node that must refuse to start.
func runOnce(t *testing.T, text string) error {
	t.Helper()
	cfg, err := config.Parse("viiwork.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := appliance.New(cfg, appliance.Options{Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return a.Run(ctx)
}

// TestReloadKeepsWhatDidNotChange: another model comes and goes, the first one's requests never notice.
func TestReloadKeepsWhatDidNotChange(t *testing.T) {
	n := newNode(t, "")
	base := nodeConfig(n.fake.URL(), n.dir)
	more := base + fmt.Sprintf("  - {name: second, context: 1024, parallel: 1, llamacpp: {runner: external, url: %q}}\n", n.fake.URL())
	answer := n.streaming(t, 200)
	for _, text := range []string{more, base} {
		cfg, err := config.Parse("viiwork.yaml", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Reload(cfg); err != nil {
			t.Fatal(err)
		}
		waitReady(t, n.url)
	}
	rest, err := io.ReadAll(answer.Body)
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(rest)), "[DONE]") {
		t.Errorf("the running stream ended with %v: %.200q", err, rest[max(0, len(rest)-200):])
	}
	if got := len(n.Status().Models); got != 1 {
		t.Errorf("%d models after the second one left, want 1", got)
	}
}

// TestReloadsAtOneTimeLeaveOneOfThem: what the node believes to serve is what its engine serves, whoever came last.
func TestReloadsAtOneTimeLeaveOneOfThem(t *testing.T) {
	n := newNode(t, "")
	base := nodeConfig(n.fake.URL(), n.dir)
	more := base + fmt.Sprintf("  - {name: second, context: 1024, parallel: 1, llamacpp: {runner: external, url: %q}}\n", n.fake.URL())
	parse := func(text string) *config.Config {
		cfg, err := config.Parse("viiwork.yaml", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	one, two := parse(base), parse(more)
	for range 300 {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				if _, err := n.Reload([]*config.Config{one, two}[i%2]); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if _, err := n.Reload(one); err != nil { // does nothing when the node believes that one rules already
			t.Fatal(err)
		}
		if got := len(n.Status().Models); got != 1 {
			t.Fatalf("%d models served after a reload of a file with one", got)
		}
	}
}

func TestSocketPathStaysShort(t *testing.T) {
	long := "/var/lib/" + strings.Repeat("deep/", 40)
	for dir, want := range map[string]string{"/var/lib/viiwork": "/var/lib/viiwork/viiwork.sock", long: ""} {
		got := appliance.SocketPath(dir)
		if want != "" && got != want || len(got) > 100 {
			t.Errorf("SocketPath(%q) = %q", dir, got)
		}
	}
	if appliance.SocketPath(long) == appliance.SocketPath(long+"er") {
		t.Error("two state directories share a socket")
	}
}
