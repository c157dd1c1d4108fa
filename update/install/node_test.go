package install_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"viiwork/update/install"
)

// fakeNode is the process of a node, good or not: its arguments are its version and how it behaves.
func fakeNode() {
	version, behaviour := os.Args[1], os.Args[2]
	ready := "ready"
	switch behaviour {
	case "loading":
		ready = "loading"
	case "crash":
		time.AfterFunc(1500*time.Millisecond, func() { os.Exit(1) })
	case "dead":
		os.Exit(1)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		ready = "loading"
	}
	socket := os.Getenv("INSTALL_TEST_SOCKET")
	_ = os.Remove(socket)
	l, err := net.Listen("unix", socket)
	if err != nil {
		panic(err)
	}
	http.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"version":%q,"models":[{"name":"Qwen","backends":[{"state":%q},{"state":"busy"}]},{"name":"Embed","backends":[{"state":"ready"}]}]}`, version, ready)
	})
	http.HandleFunc("POST /v1/{what...}", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		embeds := !holds(text, "messages")
		switch {
		case behaviour == "mute":
			http.Error(w, "the engine broke off", http.StatusBadGateway)
		case behaviour == "empty":
			io.WriteString(w, `{"choices":[{"message":{"content":""}}],"data":[]}`)
		case holds(text, `"Embed"`) != embeds:
			http.Error(w, "this model does not do that", http.StatusBadRequest)
		case embeds:
			io.WriteString(w, `{"data":[{}]}`)
		default:
			io.WriteString(w, `{"choices":[{"message":{"content":"ready"}}]}`)
		}
	})
	_ = http.Serve(l, nil)
}

func holds(text []byte, word string) bool { return strings.Contains(string(text), word) }

// manager starts a node again and again, as systemd does, and counts each start by the previous version's program.
type manager struct {
	w      *world
	socket string

	mu     sync.Mutex
	node   *exec.Cmd // that runs
	starts []string  // versions
}

// manage runs the machine's node until the test ends.
func (w *world) manage() *manager {
	w.t.Helper()
	dir, err := os.MkdirTemp("", "node") // a socket's path must be short
	if err != nil {
		w.t.Fatal(err)
	}
	m := &manager{w: w, socket: filepath.Join(dir, "s")}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.run(ctx) })
	w.t.Cleanup(func() {
		cancel()
		running.Wait()
		os.RemoveAll(dir)
	})
	m.await(oldVersion)
	return m
}

func (m *manager) run(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		if _, err := m.w.open().Boot(install.Start{Config: config, Invocation: strconv.Itoa(i)}); err != nil {
			m.w.t.Error(err)
		}
		version, err := m.w.open().Current()
		if err != nil {
			m.w.t.Error(err)
			return
		}
		cmd := exec.CommandContext(ctx, m.w.open().Program(version), "serve")
		cmd.Env = append(os.Environ(), "INSTALL_TEST_SOCKET="+m.socket)
		if err := cmd.Start(); err != nil {
			m.w.t.Error(err)
			return
		}
		m.mu.Lock()
		m.node, m.starts = cmd, append(m.starts, version)
		m.mu.Unlock()
		_ = cmd.Wait()
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (m *manager) local() install.LocalNode {
	return install.LocalNode{Socket: m.socket, Name: "attic"}
}

// await waits until a version answers.
func (m *manager) await(version string) {
	m.w.t.Helper()
	ctx, cancel := context.WithTimeout(m.w.t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		if seen, err := m.local().Look(ctx); err == nil && seen.Version == version {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	m.w.t.Fatalf("%s does not answer", version)
}

// restart ends the node that runs, as an update asks it to.
func (m *manager) restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.node.Process.Signal(syscall.SIGTERM)
}

func (m *manager) started() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.starts...)
}

// try installs a version that behaves so on the running node, has it restarted, and judges it to the end.
func (m *manager) try(behaviour string, patience, watch time.Duration) install.State {
	m.w.t.Helper()
	order := m.w.order()
	order.Patience = patience
	order.Before = func(ctx context.Context) install.Before {
		return install.Observe(ctx, m.local(), func(text string) { m.w.t.Error(text) })
	}
	if err := m.w.open().Install(m.w.t.Context(), m.w.release(newVersion, script(newVersion, behaviour)), order); err != nil {
		m.w.t.Fatal(err)
	}
	m.restart()
	m.judge(watch)
	return m.w.read()
}

func (m *manager) judge(watch time.Duration) {
	m.w.t.Helper()
	ctx, cancel := context.WithTimeout(m.w.t.Context(), 2*time.Minute)
	defer cancel()
	if err := m.w.open().Judge(ctx, install.JudgeConfig{Node: m.local(), Watch: watch, Stop: 2 * time.Second}); err != nil {
		m.w.t.Fatal(err)
	}
}

func TestGoodVersionStays(t *testing.T) {
	w := newWorld(t)
	w.put("v1.2.2", script("v1.2.2", "good"))
	w.put("mine", "#!/bin/sh\n")
	if err := os.WriteFile(filepath.Join(w.versions, "mine", "notes"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.link("previous", "v1.2.2")
	m := w.manage()
	s := m.try("good", time.Minute, time.Second)
	if s.Trial != nil || s.Last == nil || !s.Last.Good || s.Last.Version != newVersion || s.Last.From != oldVersion || len(s.Bad) > 0 {
		t.Fatalf("%+v %+v", s, s.Last)
	}
	w.wantLinks(newVersion, oldVersion)
	w.wantNothingLeft(newVersion, "mine") // v1.2.2 has gone, what holds other things has not
	m.await(newVersion)
}

// TestBadVersionIsTakenBackByItself tries the ways in which one may fail, each on a real process that is restarted.
func TestBadVersionIsTakenBackByItself(t *testing.T) {
	for behaviour, c := range map[string]struct {
		patience, watch time.Duration
		why             string
	}{
		"loading":  {20 * time.Second, time.Second, "Qwen has 1 of 2 backends"}, // in that time it has to be up and answer
		"mute":     {time.Minute, time.Second, "answered before and does not now"},
		"empty":    {time.Minute, time.Second, "answered before and does not now"},
		"crash":    {time.Minute, 20 * time.Second, ""}, // seen as another process, or by its silence
		"dead":     {20 * time.Second, time.Second, ""}, // taken back by its starts, or for want of an answer
		"stubborn": {20 * time.Second, time.Second, "Qwen has 1 of 2 backends"},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			m := w.manage()
			s := m.try(behaviour, c.patience, c.watch)
			if s.Trial != nil || s.Last == nil || s.Last.Good || !strings.Contains(s.Last.Why, c.why) || s.Last.Fault != "" || len(s.Bad) != 1 || s.Bad[0].Version != newVersion {
				t.Fatalf("%+v, last %+v", s, s.Last)
			}
			w.wantLinks(oldVersion, oldVersion)
			m.await(oldVersion)
			if err := w.open().Install(t.Context(), w.release(newVersion, script(newVersion, "good")), w.order()); err == nil {
				t.Error("it is installed again by itself")
			}
		})
	}
}

func TestPersonTakesBackWhatIsOnTrial(t *testing.T) {
	w := newWorld(t)
	m := w.manage()
	told := make(chan struct{})
	go func() {
		defer close(told)
		m.await(newVersion)
		if err := w.open().Stop("a person took it back"); err != nil {
			t.Error(err)
		}
	}()
	s := m.try("good", time.Minute, time.Minute)
	<-told
	if s.Last == nil || s.Last.Good || s.Last.Why != "a person took it back" || s.Last.Fault != "" {
		t.Fatalf("%+v", s.Last)
	}
	m.await(oldVersion)
}

// TestTrialGoesOnWithAnotherJudge ends the first one as the end of a machine does.
func TestTrialGoesOnWithAnotherJudge(t *testing.T) {
	w := newWorld(t)
	m := w.manage()
	w.install(newVersion, "good")
	m.restart()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := w.open().Judge(ctx, install.JudgeConfig{Node: m.local(), Watch: time.Minute}); err == nil {
		t.Fatal("it was decided in a second")
	}
	if w.read().Trial == nil {
		t.Fatal("the trial ended with its judge")
	}
	m.judge(time.Second)
	if s := w.read(); s.Last == nil || !s.Last.Good {
		t.Fatalf("%+v", s.Last)
	}
	if starts := m.started(); len(starts) != 2 {
		t.Errorf("the node was started %v", starts)
	}
}
