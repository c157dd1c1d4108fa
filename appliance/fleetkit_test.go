package appliance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"viiwork/appliance"
	"viiwork/appliance/config"
	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
)

// mate is a node with what replaces its program: by nothing but another word for its version.
type mate struct {
	*fellow
	t     *testing.T
	fleet *fleet
	fate  string // good, back: it goes back from every new version; kept: before it was ended for one; refused: it cannot install one
	trial time.Duration
	tried chan struct{} // ends its trial before that, if something comes; nil = nothing does
	slow  time.Duration // how long it takes to say how it stands, until its turn has come
	apart bool          // it is a process of its own
	note  []byte        // in the lock of the mesh, of whoever led before

	mu     sync.Mutex // guards what follows
	is     appliance.Installed
	serves string // version that runs
	placed string // version that the next start runs
	leave  func() // ends the node that runs
	later  sync.WaitGroup
}

// fleet is some machines in one process, and what happened to them.
type fleet struct {
	t        *testing.T
	machines []*mate
	begun    time.Time

	mu     sync.Mutex      // guards what follows
	newest string          // what there is
	at     map[string]bool // who is not as it was: installing, starting anew or on trial
	order  []string        // whose update began
	most   int             // at one time
	looks  map[string]int  // for a newer release, by name
	over   chan struct{}   // closed when the test is: no trial goes on then, and none begins
}

// newFleet is n machines that know each other and all serve m.
func newFleet(t *testing.T, n int, change func(i int, m *mate)) *fleet {
	fl := &fleet{t: t, begun: time.Now(), newest: "v1.0.0", at: map[string]bool{}, looks: map[string]int{}, over: make(chan struct{})}
	engine := fakeEngine(t, enginetest.Options{Slots: 32, Model: "m", DecodeTPS: 400})
	right, _ := secrets(t)
	for i, f := range lanFellows(t, n, func(int) []string { return []string{served("m", engine.URL(), 8)} }) {
		m := &mate{fellow: f, t: t, fleet: fl, fate: "good", trial: 500 * time.Millisecond, serves: "v1.0.0"}
		f.secret, f.drain = right, "2s"
		if change != nil {
			change(i, m)
		}
		fl.machines = append(fl.machines, m)
	}
	for _, m := range fl.machines {
		m.seeds = nil
		for _, other := range fl.machines {
			if other != m {
				m.seeds = append(m.seeds, other.seed())
			}
		}
		state := filepath.Join(m.dir, "state")
		if err := os.MkdirAll(state, 0o700); err != nil {
			t.Fatal(err)
		}
		kept, _ := json.Marshal(map[string]any{"term": len(m.note), "note": map[string]any{"term": len(m.note), "number": len(m.note), "text": m.note}})
		if err := os.WriteFile(filepath.Join(state, "meshlock.json"), kept, 0o600); err != nil {
			t.Fatal(err)
		}
		m.start()
	}
	t.Cleanup(func() {
		fl.mu.Lock()
		close(fl.over)
		fl.mu.Unlock()
		var ends sync.WaitGroup
		for _, m := range fl.machines {
			ends.Go(func() {
				m.later.Wait()
				if !m.apart { // a process is ended by who started it
					m.end()
				}
			})
		}
		ends.Wait()
	})
	serving := 0
	for _, m := range fl.machines {
		serving += min(1, len(m.models))
	}
	for _, m := range fl.machines {
		holds(t, m.name+" sees all", func() bool { return m.sees("m") == serving && m.alive() == n })
	}
	return fl
}

// alive counts the living as this machine sees them.
func (m *mate) alive() (n int) {
	var c status.Cluster
	m.read("/v1/cluster", &c)
	for _, other := range c.Members {
		if other.State == "alive" {
			n++
		}
	}
	return n
}

// start runs the node under the version that is in place.
func (m *mate) start() {
	if m.apart {
		m.environ = []string{roleEnv + "=mate"}
		m.spawn(m.t)
		return
	}
	cfg, err := config.Parse(filepath.Join(m.dir, "viiwork.yaml"), []byte(m.file()), environ())
	if err != nil {
		m.t.Error(err)
		return
	}
	m.mu.Lock()
	version := m.serves
	m.mu.Unlock()
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("VIIWORK_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", m.name)
	}
	ready := make(chan struct{})
	a, err := appliance.New(cfg, appliance.Options{Version: version, Installer: m, Restarted: true, Lookout: 100 * time.Millisecond, StopEngines: m.ends, Log: log, Ready: func(...string) { close(ready) }})
	if err != nil {
		m.t.Error(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	select {
	case <-ready:
	case err := <-ended:
		m.t.Errorf("%s ended with %v", m.name, err)
		ended <- nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leave = sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			m.t.Errorf("%s ended with %v", m.name, err)
		}
	})
}

// end ends the node as SIGTERM does.
func (m *mate) end() {
	if m.apart {
		m.fellow.leave()
		return
	}
	m.mu.Lock()
	leave := m.leave
	m.mu.Unlock()
	leave()
}

func (m *mate) Newest(context.Context) (string, error) {
	m.fleet.mu.Lock()
	defer m.fleet.mu.Unlock()
	m.fleet.looks[m.name]++
	return m.fleet.newest, nil
}

// publish makes a release.
func (fl *fleet) publish(version string) {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	fl.newest = version
}

func (m *mate) Installed() appliance.Installed {
	if order, _ := m.fleet.went(); m.slow > 0 && !slices.Contains(order, m.name) {
		time.Sleep(m.slow)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.is
}

func (m *mate) Install(ctx context.Context, o appliance.InstallOrder) error {
	m.fleet.begins(m.name)
	if m.fate == "refused" {
		m.fleet.ends(m.name)
		return fmt.Errorf("%s refuses this machine's configuration", o.Version)
	}
	o.Said(1<<20, 2<<20)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.placed = o.Version
	m.is.Trial = "on trial"
	return nil
}

// Restart ends the node and starts it with what is in place, which is on trial then.
func (m *mate) Restart(context.Context) error {
	m.fleet.mu.Lock() // else the test could end meanwhile, and the node that is started would outlive it
	defer m.fleet.mu.Unlock()
	select {
	case <-m.fleet.over:
		return errors.New("the test is over")
	default:
	}
	m.later.Go(func() {
		if m.fate == "kept" {
			m.mu.Lock()
			m.is = appliance.Installed{Bad: m.placed, Back: time.Now().UnixMilli(), BackWhy: "its image is another by now"}
			m.placed = ""
			m.mu.Unlock()
			m.fleet.ends(m.name)
			return
		}
		m.again()
		select {
		case <-time.After(m.trial):
		case <-m.tried:
		case <-m.fleet.over:
		}
		if m.fate != "back" {
			m.fleet.ends(m.name) // before anybody can see it: the next one's turn begins then
		}
		m.mu.Lock()
		tried := m.serves
		m.is.Trial = ""
		if m.fate == "back" {
			m.placed = "v1.0.0"
			m.is.Bad, m.is.Back, m.is.BackWhy = tried, time.Now().UnixMilli(), "m was not ready in time"
		}
		m.mu.Unlock()
		if m.fate == "back" {
			m.again()
			m.fleet.ends(m.name)
		}
	})
	return nil
}

// again starts the node anew.
func (m *mate) again() {
	m.end()
	m.mu.Lock()
	if m.placed != "" {
		m.serves = m.placed
	}
	m.mu.Unlock()
	m.start()
}

func (m *mate) version() string {
	if m.apart {
		return readVersion(m.dir)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.serves
}

func (fl *fleet) begins(name string) {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	fl.at[name] = true
	fl.order = append(fl.order, name)
	fl.most = max(fl.most, len(fl.at))
}

func (fl *fleet) ends(name string) {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	delete(fl.at, name)
}

// went tells the order, and how many were at it at one time at most.
func (fl *fleet) went() (order []string, most int) {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	return slices.Clone(fl.order), fl.most
}

// looked tells how often each has looked for a newer release.
func (fl *fleet) looked() map[string]int {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	return maps.Clone(fl.looks)
}

func (fl *fleet) versions() (all []string) {
	for _, m := range fl.machines {
		all = append(all, m.version())
	}
	return all
}

// mesh is what 'viiwork update --mesh' asks of the machine.
func (m *mate) mesh(want status.RolloutRequest) (out status.Rollout, code int) {
	body, _ := json.Marshal(want)
	answer, err := socketClient(m.dir).Post("http://localhost/api/update/mesh", "application/json", bytes.NewReader(body))
	if err != nil {
		return out, 0
	}
	defer answer.Body.Close()
	_ = json.NewDecoder(answer.Body).Decode(&out)
	return out, answer.StatusCode
}

// rollout is what the machine tells of one.
func (m *mate) rollout() status.Rollout {
	var c status.Cluster
	if !m.read("/v1/cluster", &c) || c.Rollout == nil {
		return status.Rollout{}
	}
	return *c.Rollout
}

// lead begins a roll-out there.
func (m *mate) lead(version string) {
	m.t.Helper()
	if _, code := m.mesh(status.RolloutRequest{Version: version}); code != http.StatusAccepted {
		m.t.Fatalf("%s does not lead: %d", m.name, code)
	}
}
