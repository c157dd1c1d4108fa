package appliance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"viiwork/appliance"
	"viiwork/appliance/config"
	"viiwork/engine/enginetest"
	"viiwork/tsnode"
	"viiwork/tsnode/localcontrol"
)

// heir starts a node again and again, and holds its listener meanwhile.
type heir struct {
	*fellow
	listener *net.TCPListener // nil before the first run
}

// keep is the listener for the next run.
func (h *heir) keep(t *testing.T, l net.Listener) net.Listener {
	t.Helper()
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	again, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// run starts the node and returns at once; leave ends it.
func (h *heir) run(t *testing.T, ready func()) (leave func()) {
	t.Helper()
	cfg, err := config.Parse(filepath.Join(h.dir, "viiwork.yaml"), []byte(h.file()), environ())
	if err != nil {
		t.Fatal(err)
	}
	o := appliance.Options{Version: "test", Restarted: true, StopEngines: h.ends, Log: slog.New(slog.DiscardHandler), Ready: func(...string) { ready() }}
	if h.listener == nil {
		o.Keep = func(l net.Listener) bool { h.listener = h.keep(t, l).(*net.TCPListener); return true }
	} else {
		o.Given = map[string]net.Listener{cfg.Addresses()[0].Addr: h.keep(t, h.listener)}
	}
	a, err := appliance.New(cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	return func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestWhoTakesOverKnowsWhereConversationsAre: what waited at its listener goes where the conversation is, although this node
// could answer at once and has not heard of the other yet.
func TestWhoTakesOverKnowsWhereConversationsAre(t *testing.T) {
	t.Parallel()
	engine := fakeEngine(t, enginetest.Options{Slots: 8, Model: "m"})
	all := lanFellows(t, 2, func(int) []string { return []string{served("m", engine.URL(), 4)} })
	home, back := all[0], &heir{fellow: all[1]}
	home.spawn(t)
	ready := make(chan struct{})
	leave := back.run(t, func() { close(ready) })
	<-ready
	defer back.listener.Close()
	for _, f := range all {
		holds(t, f.name+" sees both", func() bool { return f.sees("m") == 2 })
	}
	talk := newMover("settler", 20_000)
	talk.turn(t, home)
	talk.known(t, all)
	leave()
	home.signal(syscall.SIGSTOP)
	defer home.signal(syscall.SIGCONT)
	asked := make(chan said, 1)
	go func() {
		asked <- back.chat("", map[string]any{"model": "m", "messages": talk.messages, "max_tokens": 4}, "X-Session-Id", talk.name)
	}()
	leave = back.run(t, func() {})
	defer func() { leave() }()
	holds(t, "the node has its engine again", func() bool {
		answer, err := socketClient(back.dir).Get("http://node/readyz")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	select {
	case got := <-asked:
		t.Errorf("it answers before it has heard of the other: %d by %s, %s", got.status, got.header.Get("X-Viiwork-Node"), got.header.Get("X-Viiwork-Route"))
		return
	case <-time.After(500 * time.Millisecond): // it would take a few
	}
	home.signal(syscall.SIGCONT)
	got := <-asked
	if got.status != http.StatusOK || got.header.Get("X-Viiwork-Node") != home.name {
		t.Errorf("%d by %q, %q", got.status, got.header.Get("X-Viiwork-Node"), got.header.Get("X-Viiwork-Route"))
	}
}

// phone is a device of the tailnet that is in no mesh.
func phone(t *testing.T, control *localcontrol.Control) *http.Client {
	t.Helper()
	n, err := tsnode.New(tsnode.Config{
		Network: tsnode.Tailnet, Name: "phone", StateDir: t.TempDir(), APIPort: 8086, GossipPort: 7946, ControlURL: control.URL(),
		Log: slog.New(slog.DiscardHandler), Getenv: func(string) string { return "" },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() { left <- n.Run(ctx) }()
	t.Cleanup(func() { leave(); <-left })
	<-n.Ready()
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: n.DialContext}}
}

// TestWhoStartsAnewSaysSoToTheTailnet: its device's address stays open for members to the last, and clients are told to ask again
// shortly, while what ran is answered to its end.
func TestWhoStartsAnewSaysSoToTheTailnet(t *testing.T) {
	t.Parallel()
	control := localTailnet(t, localcontrol.Config{})
	early, late := fakeEngine(t, enginetest.Options{Slots: 4, Model: "early"}), fakeEngine(t, enginetest.Options{Slots: 4, Model: "late"})
	f := tailnetFellow(t, control, "a", rightSecret, served("early", early.URL(), 4), served("late", late.URL(), 4))
	f.drain = "60s"
	node := &heir{fellow: f}
	ready := make(chan struct{})
	leave := node.run(t, func() { close(ready) })
	<-ready
	defer node.listener.Close()
	client := phone(t, control)
	url := ""
	holds(t, "the device answers the phone", func() bool {
		var c struct {
			Members []struct{ Addr string }
		}
		if !f.read("/v1/cluster", &c) || len(c.Members) != 1 || c.Members[0].Addr == "" {
			return false
		}
		url = "http://" + c.Members[0].Addr
		answer, err := client.Get(url + "/healthz")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	holds(t, "it serves", func() bool { return f.sees("early") == 1 && f.sees("late") == 1 })
	streamed := make(chan said, 2)
	stream := func(model string, engine *enginetest.Server) {
		engine.SetFaults(enginetest.Faults{Silent: true}) // it runs until it has seen enough, however slow this machine is
		go func() { streamed <- f.chat("", question(model, "on the way down", 40, true)) }()
		holds(t, model+" runs", func() bool { return engine.Stats().Active == 1 })
	}
	stream("early", early)
	left := make(chan struct{})
	go func() { defer close(left); leave() }()
	holds(t, "the end has begun", func() bool { return f.warning("draining") != nil || f.state() == "draining" })
	stream("late", late) // what comes in until the first is done, is waited for
	early.SetFaults(enginetest.Faults{})
	told := 0
	for gone := false; !gone; {
		select {
		case <-left:
			gone = true
			continue
		default:
		}
		answer, err := client.Get(url + "/v1/models")
		if err != nil {
			continue // its device has gone
		}
		var doc struct{ Error struct{ Code string } }
		_ = json.NewDecoder(answer.Body).Decode(&doc)
		answer.Body.Close()
		switch {
		case answer.StatusCode == http.StatusOK && told == 0:
		case answer.StatusCode == http.StatusServiceUnavailable && doc.Error.Code == "node_stopped" && answer.Header.Get("Retry-After") != "":
			told++
			late.SetFaults(enginetest.Faults{})
		default:
			t.Errorf("after %d refusals: %d %+v", told, answer.StatusCode, doc)
		}
	}
	for range 2 {
		if got := <-streamed; !got.complete(true) {
			t.Errorf("%d %v %.300s", got.status, got.err, got.body)
		}
	}
	if told == 0 {
		t.Error("nobody was told")
	}
}

// state is what the node says of itself.
func (f *fellow) state() string {
	var s struct{ State string }
	f.read("/v1/status", &s)
	return s.State
}

// TestWhoIsNotInItsMeshYetLeadsNobodyAndSaysSo: whoever follows a roll-out asks again.
func TestWhoIsNotInItsMeshYetLeadsNobodyAndSaysSo(t *testing.T) {
	t.Parallel()
	f := &fellow{name: "a", dir: t.TempDir(), control: "http://127.0.0.1:1", secret: rightSecret, local: fmt.Sprintf("127.0.0.1:%d", portAt("127.0.0.1"))}
	f.here(t)
	answer, err := socketClient(f.dir).Get("http://node/api/update/mesh")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var doc struct {
		Error struct{ Code, Message string }
	}
	_ = json.NewDecoder(answer.Body).Decode(&doc)
	if answer.StatusCode != http.StatusServiceUnavailable || doc.Error.Code != "not_in_mesh" || answer.Header.Get("Retry-After") == "" || !strings.Contains(doc.Error.Message, "try again") {
		t.Errorf("%d %+v", answer.StatusCode, doc)
	}
}
