//go:build linux

package faults_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"viiwork/appliance/status"
)

const (
	secretEnv = "VIIWORK_FAULTS_SECRET"
	// logsEnv names a folder where nodes' logs are kept; without it only errors are shown.
	logsEnv = "VIIWORK_FAULTS_LOGS"
)

// machine is a node and its engine.
type machine struct {
	name, dir string
	access    string   // its file's sections api and mesh
	url       string   // of its API
	cable     *cable   // nil = it lives on our own loopback
	slots     int      // 0 = it has no engine
	engine    string   // URL, as the node sees it
	books     string   // address of its engine's book
	more      []string // further lines of its file

	mu  sync.Mutex // guards what follows
	cmd *exec.Cmd
	bye io.Closer // its standard input: the process leaves when that ends
}

// lanAccess is a machine that others know by its address.
func lanAccess(host string, api, gossip int, seeds []string) string {
	list, _ := json.Marshal(seeds)
	return fmt.Sprintf("api: {host: %s, port: %d, local: \"\"}\nmesh: {network: lan, secret_env: %s, bind_port: %d, lan: {mdns: false}, seeds: %s}\n",
		host, api, secretEnv, gossip, list)
}

// start gives the machine its engine and its node, and returns once both listen. They end with the test.
func (m *machine) start(t *testing.T) {
	t.Helper()
	if m.slots > 0 {
		_, m.engine, _ = m.process(t, "engine", fmt.Sprint(m.slots), m.books)
	}
	m.spawn(t)
}

// spawn starts the node, again or for the first time.
func (m *machine) spawn(t *testing.T) {
	t.Helper()
	path := filepath.Join(m.dir, "viiwork.yaml")
	if err := os.WriteFile(path, []byte(m.file()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, _, bye := m.process(t, "node", path, m.clock())
	m.mu.Lock()
	m.cmd, m.bye = cmd, bye
	m.mu.Unlock()
}

func (m *machine) file() string {
	var b strings.Builder
	fmt.Fprintf(&b, "node: {name: %s, state_dir: %q, drain: 5s}\n%smodels:\n", m.name, filepath.Join(m.dir, "state"), m.access)
	if m.slots > 0 {
		fmt.Fprintf(&b, "  - {name: m, context: 65536, parallel: %d, llamacpp: {runner: external, url: %q}}\n", m.slots, m.engine)
	} else {
		b.WriteString("  []\n")
	}
	return b.String() + strings.Join(m.more, "")
}

// process starts a role on the machine; said is the first line it prints.
func (m *machine) process(t *testing.T, role string, args ...string) (cmd *exec.Cmd, said string, bye io.Closer) {
	t.Helper()
	cmd = exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "TS_AUTHKEY=", roleEnv+"="+role, secretEnv+"=MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	cmd.Stderr = os.Stderr
	if dir := os.Getenv(logsEnv); dir != "" && role == "node" {
		log, err := os.OpenFile(filepath.Join(dir, m.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		cmd.Stderr = log
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	begin := cmd.Start
	if m.cable != nil {
		begin = func() error { return m.cable.within(cmd.Start) }
	}
	if err := begin(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(cmd, cmd.Process.Kill) })
	said, err = bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("%s of %s did not start: %v", role, m.name, err)
	}
	return cmd, strings.TrimSpace(said), stdin
}

// end ends a process, if it has not been waited for, and waits for it.
func end(cmd *exec.Cmd, how func() error) {
	if cmd.ProcessState != nil {
		return
	}
	_ = how()
	hung := time.AfterFunc(longWait, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	hung.Stop()
}

// running is the node's process.
func (m *machine) running() (*exec.Cmd, io.Closer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cmd, m.bye
}

// kill ends the node as kill -9 does.
func (m *machine) kill() {
	cmd, _ := m.running()
	end(cmd, cmd.Process.Kill)
}

// leave ends the node as SIGTERM does the program.
func (m *machine) leave() {
	cmd, bye := m.running()
	end(cmd, bye.Close)
}

func (m *machine) signal(s syscall.Signal) {
	cmd, _ := m.running()
	_ = cmd.Process.Signal(s)
}

func (m *machine) clock() string { return filepath.Join(m.dir, "clock") }

// step sets the node's clock forward from the right time.
func (m *machine) step(t *testing.T, by time.Duration) {
	next := m.clock() + ".next"
	if err := os.WriteFile(next, []byte(by.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, m.clock()); err != nil {
		t.Fatal(err)
	}
}

// quick reads what is told of nodes and engines; each question on a connection of its own, so that none outlives its node.
var quick = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// read fills v from a page, and reports whether it could.
func read(url string, v any) bool {
	answer, err := quick.Get(url)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK && json.NewDecoder(answer.Body).Decode(v) == nil
}

// members is how the node sees each of the mesh: name to state, nil when it cannot be asked.
func (m *machine) members() map[string]string {
	var c status.Cluster
	if !read(m.url+"/v1/cluster", &c) {
		return nil
	}
	all := map[string]string{}
	for _, other := range c.Members {
		all[other.Name] = other.State
	}
	return all
}

// warns tells whether the node's status has a warning of that id.
func (m *machine) warns(id string) bool {
	var n status.Node
	read(m.url+"/v1/status", &n)
	return slices.ContainsFunc(n.Warnings, func(w status.Warning) bool { return w.ID == id })
}

// serves is how many nodes serve the model, as this one sees it.
func (m *machine) serves() (n int) {
	var list struct {
		Data []struct {
			Viiwork struct {
				Hosts []struct{ State string }
			}
		}
	}
	read(m.url+"/v1/models", &list)
	for _, model := range list.Data {
		for _, h := range model.Viiwork.Hosts {
			if h.State == "ready" || h.State == "busy" {
				n++
			}
		}
	}
	return n
}

// book reads what the machine's engine has run of the marks that begin so.
func (m *machine) book(t *testing.T, mark string) (b book) {
	t.Helper()
	if m.slots > 0 {
		until(t, "the engine of "+m.name+" tells what it ran", time.Now(), func() bool { b = book{}; return read("http://"+m.books+"/?mark="+mark, &b) })
	}
	return b
}

// onLoopback is a mesh of machines without a network of their own; the first know no others.
func onLoopback(t *testing.T, slots ...int) (all []*machine) {
	var seeds []string
	for i, n := range slots {
		at := fmt.Sprintf("127.0.0.%d", 2+i)
		api, gossip := freePort(t, at), freePort(t, at)
		all = append(all, &machine{
			name: fmt.Sprintf("m%d", i), dir: t.TempDir(), slots: n, access: lanAccess(at, api, gossip, seeds),
			url: fmt.Sprintf("http://%s:%d", at, api), books: fmt.Sprintf("%s:%d", at, freePort(t, at)),
		})
		if i == 0 {
			seeds = []string{fmt.Sprintf("%s:%d", at, gossip)}
		}
	}
	return all
}

// freePort is one that nobody listens on at this moment, another one each time. It is none of those that the system
// hands out by itself: a machine listens on it only later, and again after its process was killed.
func freePort(t *testing.T, host string) int {
	t.Helper()
	var err error
	for range 100 {
		port := int(10000 + nextPort.Add(1)%4000)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("%s:%d", host, port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("looking for a free port: ", err)
	return 0
}

var nextPort atomic.Uint32

func init() { nextPort.Store(rand.Uint32N(4000)) }
