package main_test

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
)

// place writes what a node of one model needs below a folder of the test: the configuration, and the program as one version
// among others.
func place(t *testing.T, program string) (s *supervisor, url string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "vw") // short: the path of a socket is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	port, err := newPorts().free()
	if err != nil {
		t.Fatal(err)
	}
	s = &supervisor{prefix: filepath.Join(dir, "opt"), config: filepath.Join(dir, "viiwork.yaml"), state: filepath.Join(dir, "state"), store: true}
	version := filepath.Join(s.prefix, "versions", "v1")
	text := fmt.Sprintf(`node: {name: n, state_dir: %q, drain: 20s}
api: {host: 127.0.0.1, port: %d, local: ""}
mesh: {network: lan, bind_port: %d, open: true, lan: {mdns: false}}
routing: {queue_timeout: 60s}
models:
  - {name: m, path: tiny.gguf, context: 2048, parallel: 32, args: [--fake-decode-tps, "20"], llamacpp: {runner: native, binary: %q, prompt_cache: 64MiB}}
models_dir: %q
`, s.state, port, port+1, enginetest.Program(t), dir)
	for _, err := range []error{
		os.MkdirAll(version, 0o755),
		os.Symlink(program, filepath.Join(version, "viiwork")),
		os.Symlink("v1", filepath.Join(s.prefix, "versions", "current")),
		os.WriteFile(s.config, []byte(text), 0o600),
		enginetest.WriteGGUF(filepath.Join(dir, "tiny.gguf"), enginetest.GGUFOptions{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { endEngines(dir) })
	return s, fmt.Sprintf("http://127.0.0.1:%d", port)
}

// itself is this test program, which is viiwork by that name.
func itself(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// serves waits until the node answers for its model.
func (s *supervisor) serves(url string) {
	s.t.Helper()
	s.await("a ready node", func() bool {
		resp, err := http.Get(url + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// TestARestartUnderLoadFailsNobody: three times the node ends and starts anew while clients hammer it, each time with a
// new connection, and others listen to streams. Every answer comes whole, and the engine is the same process.
func TestARestartUnderLoadFailsNobody(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(t *testing.T, s *supervisor, addr string){
		"the manager keeps what the node opened": func(*testing.T, *supervisor, string) {},
		"the manager opened it":                  socketUnit,
	} {
		t.Run(name, func(t *testing.T) {
			s, url := place(t, itself(t))
			set(t, s, url[len("http://"):])
			s.supervise(t)
			s.serves(url)
			before := s.engines()
			l := load{url: url}
			l.begin(8, 20)
			for range 3 {
				asked, streams := l.sofar()
				time.Sleep(2500 * time.Millisecond) // so that streams are at every point
				s.await("enough to be asked", func() bool {
					askedNow, streamsNow := l.sofar()
					return askedNow >= asked+30 && streamsNow >= streams+20
				})
				h := s.restart()
				t.Logf("drain %.2f s, swap %.2f s; a new connection waited for %.2f s at most", h.Drain, h.Swap, h.Held)
			}
			time.Sleep(500 * time.Millisecond)
			l.end()
			l.tell(t)
			if after := s.engines(); !maps.Equal(after, before) || len(before) != 1 || before["m#0"] == "" {
				t.Errorf("engines were %v, are %v", before, after)
			}
			for _, code := range s.ends() {
				if code != 0 {
					t.Errorf("a run ended with %d", code)
				}
			}
		})
	}
}

// socketUnit has the supervisor open the listener before the first start, and hold nothing else.
func socketUnit(t *testing.T, s *supervisor, addr string) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	s.held, s.store = []heldFile{{"viiwork.socket", f}}, false
}

// TestAStreamLongerThanTheDrainIsTold: it ends with an error event, and the next run comes all the same.
func TestAStreamLongerThanTheDrainIsTold(t *testing.T) {
	t.Parallel()
	s, url := place(t, itself(t))
	s.supervise(t)
	s.serves(url)
	body := `{"model":"m","stream":true,"max_tokens":1900,"ignore_eos":true,"messages":[{"role":"user","content":"x"}]}`
	resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	var told, now status.Restart
	if code := s.call(http.MethodPost, "/api/update/restart", `{"drain_s":1}`, &told); code != http.StatusAccepted || told.Requests != 1 {
		t.Errorf("%d %+v", code, told)
	}
	rest, _ := io.ReadAll(resp.Body)
	events := strings.Split(strings.TrimSpace(string(rest)), "\n\n")
	if last := events[len(events)-1]; !strings.Contains(last, `"node_stopped"`) || strings.Contains(string(rest), "[DONE]") {
		t.Errorf("the stream ends with %q", last)
	}
	s.await("the next run", func() bool {
		now = status.Restart{}
		return s.call(http.MethodGet, "/api/update/restart", "", &now) == http.StatusOK && now.Run != told.Run && now.Last != nil
	})
	if now.Last.Requests != 1 || now.Last.Drain < 1 {
		t.Errorf("took over by %+v", *now.Last)
	}
}
