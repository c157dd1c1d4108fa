package main_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
	"viiwork/tsnode"
	"viiwork/tsnode/localcontrol"
	"viiwork/update/install"
)

// Variables of the nodes of a fleet under test.
const (
	fleetSecret = "VIIWORK_TEST_SECRET"
	fleetWatch  = "VIIWORK_TEST_WATCH" // how long a judge watches what it finds good
)

// hasty has a judge that a node starts watch for as long as the test can wait.
func hasty(args []string) []string {
	if watch := os.Getenv(fleetWatch); watch != "" && len(args) > 1 && args[0] == "update" && args[1] == "judge" {
		return append(args, "--watch", watch)
	}
	return args
}

// quick is this program without the race detector, which in each of several nodes, with a network of its own, takes longer than
// their clients wait. It gives it as a version.
func quick(t *testing.T, flags ...string) (as func(version string) []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "viiwork")
	if out, err := exec.Command("go", append(append([]string{"test", "-c", "-o", path}, flags...), ".")...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return func(version string) []byte { return append(bytes.Clone(program), stampMark+version...) }
}

// fleetOf says what a fleet is made of.
type fleetOf struct {
	machines int
	hosts    int    // of them serve m, the first ones
	tailnet  bool   // else they are at loopback addresses
	program  []byte // all run it as v1.0.0
	watch    time.Duration
	drain    time.Duration // 0 = 40 s
}

// fleet is machines of one mesh, each a process under its supervisor.
type fleet struct {
	t     *testing.T
	of    fleetOf
	from  *shop
	ports *ports
	phone *tsnode.Node // a device of the tailnet that is in no mesh
	url   string       // of the tailnet's control server
	all   []*mate
}

// mate is one of them.
type mate struct {
	*supervisor
	name string
	url  string // where it answers programs of this machine
	bind int    // lan: its port of gossip

	here, afar load // clients of this machine, and of the tailnet
	tail       outage
}

// newFleet starts one and waits until each sees all. The releases that are to be there at once are published meanwhile.
func newFleet(t *testing.T, of fleetOf, publish func(*shop)) *fleet {
	t.Helper()
	fl := &fleet{t: t, of: of, from: openShop(t), ports: newPorts()}
	t.Setenv(fleetSecret, "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	t.Setenv(fleetWatch, of.watch.String())
	t.Setenv("TS_AUTHKEY", "")
	publish(fl.from)
	if of.tailnet {
		fl.openTailnet()
	}
	for i := range of.machines {
		fl.all = append(fl.all, fl.machine(i))
	}
	for i, m := range fl.all {
		fl.furnish(m, i < of.hosts)
		m.install(t, "v1.0.0", of.program)
		m.supervise(t)
	}
	t.Cleanup(func() { // each goodbye takes seconds
		var ends sync.WaitGroup
		for _, m := range fl.all {
			ends.Go(m.stop)
		}
		ends.Wait()
	})
	for _, m := range fl.all {
		m.await(m.name+" to see all", func() bool { return m.sees() == of.hosts })
	}
	return fl
}

// openTailnet starts a tailnet, with a device that asks from outside.
func (fl *fleet) openTailnet() {
	fl.t.Helper()
	control, err := localcontrol.Start(localcontrol.Config{})
	if err != nil {
		fl.t.Fatal(err)
	}
	fl.t.Cleanup(control.Close)
	fl.url = control.URL()
	fl.phone, err = tsnode.New(tsnode.Config{
		Network: tsnode.Tailnet, Name: "phone", StateDir: fl.t.TempDir(), APIPort: 8086, GossipPort: 7946, ControlURL: fl.url,
		Log: slog.New(slog.DiscardHandler), Getenv: func(string) string { return "" },
	})
	if err != nil {
		fl.t.Fatal(err)
	}
	ctx, leave := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() { left <- fl.phone.Run(ctx) }()
	fl.t.Cleanup(func() { leave(); <-left })
	<-fl.phone.Ready()
}

func (fl *fleet) machine(i int) *mate {
	fl.t.Helper()
	dir, err := os.MkdirTemp("", "vw") // short: the path of a socket is
	if err != nil {
		fl.t.Fatal(err)
	}
	fl.t.Cleanup(func() { os.RemoveAll(dir) })
	port, err := fl.ports.free()
	if err != nil {
		fl.t.Fatal(err)
	}
	m := &mate{name: string(rune('a' + i)), bind: port + 1, supervisor: &supervisor{
		prefix: filepath.Join(dir, "opt"), config: filepath.Join(dir, "viiwork.yaml"), state: filepath.Join(dir, "state"), store: true,
	}}
	m.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	fl.t.Cleanup(func() { endEngines(dir) })
	return m
}

// furnish writes what a setup leaves on a machine, and what it would have fetched and heard since.
func (fl *fleet) furnish(m *mate, serves bool) {
	fl.t.Helper()
	dir, at := filepath.Dir(m.config), strings.TrimPrefix(m.url, "http://")
	host, port, _ := net.SplitHostPort(at)
	network := fmt.Sprintf("api: {local: %q}\nmesh: {secret_env: %s, tailnet: {control_url: %q}}\n", at, fleetSecret, fl.url)
	if !fl.of.tailnet {
		var seeds []string
		for _, other := range fl.all {
			if other != m {
				seeds = append(seeds, fmt.Sprintf("%s:%d", host, other.bind))
			}
		}
		text, _ := json.Marshal(seeds)
		network = fmt.Sprintf("api: {host: %s, port: %s, local: \"\"}\nmesh: {network: lan, secret_env: %s, bind_port: %d, lan: {mdns: false}, seeds: %s}\n", host, port, fleetSecret, m.bind, text)
	}
	models := "models: []\n"
	if serves {
		models = fmt.Sprintf("models:\n  - {name: m, path: tiny.gguf, context: 16384, parallel: 32, args: [--fake-decode-tps, \"20\", --fake-prefill-tps, \"2000\"], llamacpp: {runner: native, binary: %q, prompt_cache: 64MiB}}\nmodels_dir: %q\n", enginetest.Program(fl.t), dir)
	}
	text := fmt.Sprintf("node: {name: %s, state_dir: %q, drain: %s}\n%skv_share: {mode: pull}\nrouting: {queue_timeout: 60s}\nupdate: {source: %q}\n%s", m.name, m.state, cmp.Or(fl.of.drain, 40*time.Second), network, fl.from.source, models)
	keys, err := json.Marshal(map[string]any{"fetched": time.Now(), "root": json.RawMessage(fl.from.signs.Root())})
	for _, err := range []error{
		err,
		os.MkdirAll(filepath.Join(m.state, "trust"), 0o700),
		os.WriteFile(m.config, []byte(text), 0o600),
		os.WriteFile(filepath.Join(m.state, "trust", "trusted_root.json"), keys, 0o600),
		os.WriteFile(filepath.Join(m.state, "meshlock.json"), []byte(`{"term":0,"note":{"term":0,"number":0}}`), 0o600), // else its voice is silent for two minutes
		enginetest.WriteGGUF(filepath.Join(dir, "tiny.gguf"), enginetest.GGUFOptions{}),
	} {
		if err != nil {
			fl.t.Fatal(err)
		}
	}
}

// sees is how many nodes serve m, as the machine sees it.
func (m *mate) sees() (n int) {
	var list struct {
		Data []struct {
			Viiwork struct{ Hosts []struct{ State string } }
		}
	}
	m.call(http.MethodGet, "/v1/models", "", &list)
	for _, model := range list.Data {
		for _, h := range model.Viiwork.Hosts {
			if h.State == "ready" || h.State == "busy" {
				n++
			}
		}
	}
	return n
}

// lead has the machine's owner update the mesh, and returns how that ended.
func (fl *fleet) lead(m *mate, more ...string) (r status.Rollout, code int, said string) {
	fl.t.Helper()
	cmd := exec.Command(m.program(), append([]string{"update", "--mesh", "--yes", "--json", "--config", m.config}, more...)...)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		fl.t.Fatal(err)
	}
	if out.Len() > 0 && json.Unmarshal(out.Bytes(), &r) != nil {
		fl.t.Fatalf("printed %s", out.String())
	}
	return r, cmd.ProcessState.ExitCode(), complaints.String()
}

// trial is how the last one ended.
func (m *mate) trial() install.Outcome {
	versions, _ := install.Of(filepath.Join(m.prefix, "versions", m.runs(), "viiwork"))
	if versions == nil {
		return install.Outcome{}
	}
	is, err := versions.State()
	if err != nil || is.Last == nil {
		return install.Outcome{}
	}
	return *is.Last
}

// versions are what answers, by machine.
func (fl *fleet) versions() (all []string) {
	for _, m := range fl.all {
		all = append(all, m.runs())
	}
	return all
}

// tailURL is where the machine answers the tailnet.
func (fl *fleet) tailURL(m *mate) (url string) {
	m.await("its device to be known", func() bool {
		peers := fl.phone.Peers()
		i := slices.IndexFunc(peers, func(p tsnode.Peer) bool { return p.Name == "viiwork-"+m.name && len(p.Addrs) > 0 })
		if i >= 0 {
			url = "http://" + net.JoinHostPort(peers[i].Addrs[0].String(), fmt.Sprint(cmp.Or(peers[i].APIPort, 8086)))
		}
		return i >= 0
	})
	return url
}
