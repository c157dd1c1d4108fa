package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"viiwork/appliance"
	"viiwork/appliance/status"
)

// supervisor does for one node what systemd does by the unit that setup writes: it runs what comes before the start, starts
// the program that the link leads to, again whenever it has ended, hears what it says, and holds listeners for it.
type supervisor struct {
	t      testing.TB
	prefix string     // holds versions/current/viiwork
	config string     // viiwork.yaml
	state  string     // node.state_dir
	before [][]string // run before each start; what becomes of them does not count
	store  bool       // it holds what the node gives it; false = only what it was made with

	notify *net.UnixConn
	log    *os.File
	over   chan struct{}

	mu     sync.Mutex // guards what follows
	held   []heldFile
	starts int
	codes  []int // how the runs ended
	cmd    *exec.Cmd
	ready  int // starts that said so
	ending bool
}

// heldFile is a listener that is open whether or not the node runs.
type heldFile struct {
	name string
	file *os.File
}

// supervise starts the node and ends it with the test. Its log is shown if the test fails.
func (s *supervisor) supervise(t testing.TB) {
	t.Helper()
	s.t, s.over = t, make(chan struct{})
	dir := t.TempDir()
	var err error
	if s.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	if s.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	go s.hear()
	go s.run()
	t.Cleanup(func() {
		s.stop()
		s.notify.Close()
		if t.Failed() {
			text, _ := os.ReadFile(s.log.Name())
			t.Logf("the nodes said:\n%s", text[max(0, len(text)-16<<10):])
		}
		s.log.Close()
		for _, h := range s.held {
			h.file.Close()
		}
	})
	s.await("the first start", func() bool { return s.readied() > 0 })
}

// program is what a start runs.
func (s *supervisor) program() string {
	return filepath.Join(s.prefix, "versions", "current", "viiwork")
}

// run starts the node until it is to end.
func (s *supervisor) run() {
	defer close(s.over)
	for {
		for _, c := range s.before {
			cmd := exec.Command(c[0], c[1:]...)
			cmd.Env = s.environ()
			cmd.Stdout, cmd.Stderr = s.log, s.log
			_ = cmd.Run()
		}
		s.mu.Lock()
		if s.ending {
			s.mu.Unlock()
			return
		}
		s.starts++
		cmd, before := s.command(), s.ready
		err := cmd.Start()
		if err == nil {
			s.cmd = cmd
		}
		s.mu.Unlock()
		code := -1
		if err == nil {
			late := time.AfterFunc(time.Minute, func() { // TimeoutStartSec
				if s.readied() == before {
					_ = cmd.Process.Kill()
				}
			})
			_ = cmd.Wait()
			late.Stop()
			code = cmd.ProcessState.ExitCode()
		}
		s.mu.Lock()
		s.codes = append(s.codes, code)
		s.mu.Unlock()
		if code == 2 || code == 4 { // RestartPreventExitStatus
			return
		}
		time.Sleep(100 * time.Millisecond) // RestartSec
	}
}

func (s *supervisor) environ() []string {
	return append(os.Environ(), "NOTIFY_SOCKET="+s.notify.LocalAddr().String(), fmt.Sprintf("INVOCATION_ID=%032d", s.starts))
}

// command is the next start. The shell knows the process's number, which is the node's once it has become the node.
func (s *supervisor) command() *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", `[ -z "$LISTEN_FDS" ] || export LISTEN_PID=$$; exec "$0" "$@"`, s.program(), "serve", "--config", s.config)
	cmd.Env = append(s.environ(), "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	if s.store {
		cmd.Env = append(cmd.Env, "FDSTORE=4")
	}
	var names []string
	for _, h := range s.held {
		cmd.ExtraFiles = append(cmd.ExtraFiles, h.file)
		names = append(names, h.name)
	}
	if len(names) > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("LISTEN_FDS=%d", len(names)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	}
	cmd.Stdout, cmd.Stderr = s.log, s.log
	return cmd
}

// hear takes what the node says, and the listeners that it gives.
func (s *supervisor) hear() {
	words, rights := make([]byte, 4096), make([]byte, 1024)
	for {
		n, oobn, _, _, err := s.notify.ReadMsgUnix(words, rights)
		if err != nil {
			return
		}
		said := map[string]string{}
		for line := range strings.Lines(string(words[:n])) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			said[key] = value
		}
		s.mu.Lock()
		if said["READY"] == "1" {
			s.ready++
		}
		if said["FDSTOREREMOVE"] == "1" {
			for _, h := range s.held {
				h.file.Close()
			}
			s.held = nil
		}
		for _, f := range filesOf(rights[:oobn]) {
			if !s.store || said["FDSTORE"] != "1" || s.holds(f) {
				f.Close()
				continue
			}
			s.held = append(s.held, heldFile{said["FDNAME"], f})
		}
		s.mu.Unlock()
	}
}

func filesOf(rights []byte) (files []*os.File) {
	messages, _ := syscall.ParseSocketControlMessage(rights)
	for _, m := range messages {
		fds, _ := syscall.ParseUnixRights(&m)
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "held"))
		}
	}
	return files
}

// holds reports whether it has that socket already.
func (s *supervisor) holds(f *os.File) bool {
	info, err := f.Stat()
	for _, h := range s.held {
		if other, otherErr := h.file.Stat(); err == nil && otherErr == nil && os.SameFile(info, other) {
			return true
		}
	}
	return false
}

// stop ends the node for good. It is told once: a second time would have it leave at once, with what it keeps unwritten.
func (s *supervisor) stop() {
	s.mu.Lock()
	s.ending = true
	cmd := s.cmd
	s.mu.Unlock()
	if cmd != nil {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	select {
	case <-s.over:
	case <-time.After(time.Minute):
		if cmd != nil {
			_ = cmd.Process.Kill()
		}
		<-s.over
	}
}

// holding is the first listener that it holds.
func (s *supervisor) holding() (fs.FileInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) == 0 {
		return nil, errors.New("it holds none")
	}
	return s.held[0].file.Stat()
}

func (s *supervisor) readied() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

// ends are the exit codes of the runs that are over.
func (s *supervisor) ends() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int{}, s.codes...)
}

// await is for what is due; the limit only keeps a broken test from hanging.
func (s *supervisor) await(what string, so func() bool) {
	s.t.Helper()
	for limit := time.Now().Add(time.Minute); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			s.t.Fatalf("waited a minute for %s; runs ended with %v", what, s.ends())
		}
	}
}

// call asks the node over its socket, and reads the answer into v. It reports the status, 0 = nobody answers.
func (s *supervisor) call(method, path, body string, v any) int {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", appliance.SocketPath(s.state))
	}}}
	req, err := http.NewRequest(method, "http://node"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || v != nil && json.Unmarshal(text, v) != nil && resp.StatusCode/100 == 2 {
		return 0
	}
	return resp.StatusCode
}

// engines are the processes that run models, by backend.
func (s *supervisor) engines() map[string]string {
	var node status.Node
	s.await("an answer of the node", func() bool { return s.call(http.MethodGet, "/v1/status", "", &node) == http.StatusOK })
	all := map[string]string{}
	for _, m := range node.Models {
		for _, b := range m.Backends {
			all[b.ID] = b.Process
		}
	}
	return all
}

// restart wishes the run to end and waits until the next one answers. It returns how that went.
func (s *supervisor) restart() status.Handover {
	s.t.Helper()
	var told, now status.Restart
	if code := s.call(http.MethodPost, "/api/update/restart", "{}", &told); code != http.StatusAccepted || !told.Ending {
		s.t.Fatalf("the wish to end is answered with %d %+v", code, told)
	}
	s.await("the next run", func() bool {
		now = status.Restart{}
		return s.call(http.MethodGet, "/api/update/restart", "", &now) == http.StatusOK && now.Run != told.Run && now.Last != nil
	})
	return *now.Last
}
