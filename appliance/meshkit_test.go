package appliance_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"viiwork/appliance"
	"viiwork/appliance/config"
	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
)

// longWait is how long anything may take that is awaited here: much longer than it does.
const longWait = 90 * time.Second

// fellow is a node of a mesh under test, with what is needed to start it again.
type fellow struct {
	environ   []string // beside the test's own
	name, dir string
	host      string // lan: its loopback address; "" = a device of the tailnet at control
	control   string
	secret    string // its environment variable; "" = an open mesh
	port      int    // of the API on a lan
	gossip    int
	local     string   // tailnet: where it answers this machine
	seeds     []string // lan
	models    []string // lines of the file
	more      string   // further sections of the file
	drain     string   // "" = 5s
	ends      bool     // its engines end with it
	version   string   // in this process; "" = test
	root      string   // in this process: where it looks for its cards

	mu  sync.Mutex // guards what follows
	cmd *exec.Cmd
	bye io.Closer // its standard input: the process leaves when that ends
}

// lanFellow lives at the i-th loopback address.
func lanFellow(t testing.TB, i int, models ...string) *fellow {
	host := fmt.Sprintf("127.0.0.%d", 2+i)
	return &fellow{name: fmt.Sprintf("n%02d", i), dir: t.TempDir(), host: host, port: portAt(host), gossip: portAt(host), models: models}
}

// lanFellows know the first of them as their seed.
func lanFellows(t testing.TB, n int, models func(i int) []string) (all []*fellow) {
	for i := range n {
		f := lanFellow(t, i, models(i)...)
		if i > 0 {
			f.seeds = []string{all[0].seed()}
		}
		all = append(all, f)
	}
	return all
}

// portAt finds a free port below those the system gives to connections that leave, another one each time.
func portAt(host string) int {
	for {
		port := int(14000 + nextPort.Add(1)%6000) // below those of engines
		l, err := net.Listen("tcp", net.JoinHostPort(host, fmt.Sprint(port)))
		if err != nil {
			continue
		}
		l.Close()
		return port
	}
}

var nextPort atomic.Uint32

func init() { nextPort.Store(rand.Uint32N(6000)) }

// served is the line of a model that a foreign engine serves.
func served(name, url string, slots int) string {
	return fmt.Sprintf("  - {name: %s, context: 65536, parallel: %d, llamacpp: {runner: external, url: %q}}\n", name, slots, url)
}

// fakeEngine ends with the test.
func fakeEngine(t testing.TB, o enginetest.Options) *enginetest.Server {
	o.Context = 1 << 16
	s := enginetest.New(o)
	t.Cleanup(s.Close)
	s.URL()
	return s
}

func (f *fellow) seed() string { return fmt.Sprintf("%s:%d", f.host, f.gossip) }

func (f *fellow) url() string {
	if f.host == "" {
		return "http://" + f.local
	}
	return fmt.Sprintf("http://%s:%d", f.host, f.port)
}

// file is the node's viiwork.yaml.
func (f *fellow) file() string {
	var b strings.Builder
	fmt.Fprintf(&b, "node: {name: %s, state_dir: %q, drain: %s}\n", f.name, filepath.Join(f.dir, "state"), cmp.Or(f.drain, "5s"))
	access := "open: true"
	if f.secret != "" {
		access = "secret_env: " + f.secret
	}
	if f.host == "" {
		fmt.Fprintf(&b, "api: {local: %q}\nmesh: {%s, tailnet: {control_url: %q}}\n", f.local, access, f.control)
	} else {
		seeds, _ := json.Marshal(f.seeds)
		fmt.Fprintf(&b, "api: {host: %s, port: %d, local: \"\"}\nmesh: {network: lan, %s, bind_port: %d, lan: {mdns: false}, seeds: %s}\n", f.host, f.port, access, f.gossip, seeds)
	}
	b.WriteString(f.more)
	b.WriteString("models:\n" + strings.Join(f.models, ""))
	if len(f.models) == 0 {
		b.WriteString("  []\n")
	}
	return b.String()
}

// spawn runs the node in a process of its own and returns once it listens. It ends with the test, or by stop.
func (f *fellow) spawn(t testing.TB) {
	t.Helper()
	path := filepath.Join(f.dir, "viiwork.yaml")
	if err := os.WriteFile(path, []byte(f.file()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], path)
	cmd.Env = append(append(environ(), roleEnv+"=serve"), f.environ...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	f.cmd, f.bye = cmd, stdin
	f.mu.Unlock()
	t.Cleanup(func() { f.reap(cmd, stdin.Close) })
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatalf("%s did not start: %v", f.name, err)
	}
}

// reap ends a process and waits for it, once.
func (f *fellow) reap(cmd *exec.Cmd, end func() error) {
	f.mu.Lock()
	mine := f.cmd == cmd
	if mine {
		f.cmd = nil
	}
	f.mu.Unlock()
	if !mine {
		return
	}
	_ = end()
	_ = cmd.Process.Signal(syscall.SIGCONT)
	hung := time.AfterFunc(longWait, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	hung.Stop()
}

func (f *fellow) signal(s syscall.Signal) { _ = f.cmd.Process.Signal(s) }

// kill ends the process as a power cut would.
func (f *fellow) kill() { f.reap(f.cmd, f.cmd.Process.Kill) }

// leave ends the process as SIGTERM does the program.
func (f *fellow) leave() { f.reap(f.cmd, f.bye.Close) }

// here runs the node in this process. leave ends it as SIGTERM does; the test's end does so, too.
func (f *fellow) here(t testing.TB) (leave func() error) {
	t.Helper()
	_, leave = f.begin(t)
	return leave
}

// begin is here for who wants the node itself.
func (f *fellow) begin(t testing.TB) (a *appliance.Appliance, leave func() error) {
	t.Helper()
	cfg, err := config.Parse(filepath.Join(f.dir, "viiwork.yaml"), []byte(f.file()), environ())
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	a, err = appliance.New(cfg, appliance.Options{Version: cmp.Or(f.version, "test"), HostRoot: f.root, StopEngines: f.ends, Log: slog.New(slog.DiscardHandler), Ready: func(...string) { close(ready) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	leave = sync.OnceValue(func() error { stop(); return <-ended })
	t.Cleanup(func() {
		if err := leave(); err != nil {
			t.Errorf("%s ended with %v", f.name, err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatal(f.name, err)
	}
	return a, leave
}

// reload has the node, which runs in this process, serve other models.
func (f *fellow) reload(t testing.TB, a *appliance.Appliance, models ...string) {
	t.Helper()
	f.models = models
	cfg, err := config.Parse(filepath.Join(f.dir, "viiwork.yaml"), []byte(f.file()), environ())
	if err == nil {
		_, err = a.Reload(cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// runs starts the node in this process and returns how it ended: for one that must not stay.
func (f *fellow) runs(t testing.TB) error {
	t.Helper()
	cfg, err := config.Parse(filepath.Join(f.dir, "viiwork.yaml"), []byte(f.file()), environ())
	if err != nil {
		t.Fatal(err)
	}
	a, err := appliance.New(cfg, appliance.Options{Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), longWait)
	defer cancel()
	return a.Run(ctx)
}

// holds waits until it does.
func holds(t testing.TB, what string, it func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for !it() {
		if time.Since(begun) > longWait {
			t.Fatalf("never came to hold: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(begun)
}

// quick reads what nodes say of themselves; each question on a connection of its own, so that none outlives its node. A read that ends
// a test is not to fail for a machine that has much to do.
var quick = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// read fills v from a page of the node, and reports whether it could.
func (f *fellow) read(path string, v any) bool {
	answer, err := quick.Get(f.url() + path)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK && json.NewDecoder(answer.Body).Decode(v) == nil
}

// hosts maps each model the node tells of to its ready hosts.
func (f *fellow) hosts() map[string][]string {
	var list struct {
		Data []struct {
			ID      string
			Viiwork struct {
				Hosts []struct{ Node, State string }
			}
		}
	}
	f.read("/v1/models", &list)
	all := map[string][]string{}
	for _, m := range list.Data {
		for _, h := range m.Viiwork.Hosts {
			if h.State == "ready" || h.State == "busy" {
				all[m.ID] = append(all[m.ID], h.Node)
			}
		}
	}
	return all
}

// sees is how many nodes serve the model, as this one sees it.
func (f *fellow) sees(model string) int { return len(f.hosts()[model]) }

// member is the state of another node as this one sees it, "" when it knows of none.
func (f *fellow) member(name string) string {
	var c status.Cluster
	f.read("/v1/cluster", &c)
	for _, m := range c.Members {
		if m.Name == name {
			return m.State
		}
	}
	return ""
}

// placed tells whether the node has its place in its mesh. Until then it answers no member, and takes itself alone for alive.
func (f *fellow) placed() bool {
	answer, err := quick.Get(f.url() + "/v1/capacity")
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode != http.StatusServiceUnavailable
}

// warning is what the node's status says under one of the ids, nil when it says nothing.
func (f *fellow) warning(ids ...string) *status.Warning {
	var s status.Node
	f.read("/v1/status", &s)
	for _, w := range s.Warnings {
		for _, id := range ids {
			if w.ID == id {
				return &w
			}
		}
	}
	return nil
}

// said is what came of a chat request.
type said struct {
	status int
	header http.Header
	body   string
	begun  bool // a part of the answer came, be it no word of it yet
	err    error
}

// complete tells whether all of the answer came.
func (s said) complete(stream bool) bool {
	return s.err == nil && s.status == http.StatusOK && (!stream || strings.HasSuffix(strings.TrimSpace(s.body), "[DONE]"))
}

// chat asks the node, with more headers by twos.
func (f *fellow) chat(query string, body map[string]any, headers ...string) said {
	data, _ := json.Marshal(body)
	req, err := http.NewRequest(http.MethodPost, f.url()+"/v1/chat/completions"+query, bytes.NewReader(data))
	if err != nil {
		return said{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	answer, err := chatter.Do(req)
	if err != nil {
		return said{err: err}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return said{answer.StatusCode, answer.Header, string(text), bytes.Contains(text, []byte(`"content":`)), err}
}

var chatter = &http.Client{Timeout: longWait, Transport: &http.Transport{DisableKeepAlives: true}}

// question is a chat request.
func question(model, text string, tokens int, stream bool) map[string]any {
	return map[string]any{"model": model, "stream": stream, "max_tokens": tokens, "ignore_eos": true, "messages": []map[string]string{{"role": "user", "content": text}}}
}

// Variables that hold a mesh secret in the environment of all nodes under test.
const (
	rightSecret = "VIIWORK_TEST_RIGHT"
	wrongSecret = "VIIWORK_TEST_WRONG"
)

// secrets are the two names.
func secrets(testing.TB) (right, wrong string) { return rightSecret, wrongSecret }

func environ() []string {
	return append(os.Environ(), "TS_AUTHKEY=", rightSecret+"=MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", wrongSecret+"=MTEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
}
