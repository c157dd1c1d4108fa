package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/engine"
)

// fakeEngine is what a process or foreign server does when it is asked; the test turns its knobs.
type fakeEngine struct {
	mu       sync.Mutex
	ready    time.Time // loading until then
	progress float64
	checkErr error
	checks   int
	proveErr error
	proves   int
	props    engine.Props
	slots    func() ([]engine.SlotState, error) // nil = no slot is busy
	asked    []time.Time                        // when Slots was called
	// save and restore play the engine's part; nil = it writes what a slot of ten tokens gives, and reads anything.
	slotDir       string
	save, restore func(ctx context.Context, path string) (engine.SlotFile, error)
	keys          map[string]bool // seen
}

func (f *fakeEngine) set(change func(*fakeEngine)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeEngine) asks() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

func (f *fakeEngine) count() (checks, proves int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.checks, f.proves
}

// fakeDialect finds the fakeEngine behind a URL.
type fakeDialect struct {
	mu      sync.Mutex
	engines map[string]*fakeEngine
	flags   func(engine.Options) ([]string, error)
	threads []int
}

func newDialect() *fakeDialect { return &fakeDialect{engines: map[string]*fakeEngine{}} }

func (d *fakeDialect) at(url string) *fakeEngine {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.engines[url]
	if f == nil {
		f = &fakeEngine{progress: -1, checkErr: errors.New("connection refused")}
	}
	return f
}

func (d *fakeDialect) add(url string, f *fakeEngine) *fakeEngine {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.engines[url] = f
	return f
}

func (d *fakeDialect) Build(version, help string) (engine.Build, error) {
	return engine.Build{Version: version, Flags: map[string]bool{"-m": true}}, nil
}

func (d *fakeDialect) Flags(b engine.Build, o engine.Options) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.threads = append(d.threads, o.Threads)
	if d.flags != nil {
		return d.flags(o)
	}
	args := []string{"-m", o.Model.Path, "-np", fmt.Sprint(o.Model.Parallel), "--slot-save-path", o.SlotDir}
	return append(args, o.Model.Args...), nil
}

func (d *fakeDialect) Bind(host string, port int) []string { return []string{host, fmt.Sprint(port)} }

func (d *fakeDialect) Check(ctx context.Context, t engine.Target) (engine.Health, error) {
	f := d.at(t.URL)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checks++
	if f.keys == nil {
		f.keys = map[string]bool{}
	}
	f.keys[t.Key] = true
	if f.checkErr != nil {
		return engine.Health{}, f.checkErr
	}
	return engine.Health{Ready: !time.Now().Before(f.ready), Progress: f.progress}, nil
}

func (d *fakeDialect) Prove(ctx context.Context, t engine.Target, model string) error {
	f := d.at(t.URL)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.proves++
	return f.proveErr
}

func (d *fakeDialect) Props(ctx context.Context, t engine.Target) (engine.Props, error) {
	f := d.at(t.URL)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.props, nil
}

func (d *fakeDialect) Slots(ctx context.Context, t engine.Target) ([]engine.SlotState, error) {
	f := d.at(t.URL)
	f.mu.Lock()
	f.asked = append(f.asked, time.Now())
	slots := f.slots
	f.mu.Unlock()
	if slots == nil {
		return []engine.SlotState{{ID: 0}}, nil
	}
	return slots()
}

func (d *fakeDialect) Progress(log string) float64 {
	if log == "half\n" {
		return 0.5
	}
	return -1
}

// house is an Engine with its fakes.
type house struct {
	*engine.Engine
	t       *testing.T
	dialect *fakeDialect
	runner  *fakeRunner
	cfg     engine.Config
	dir     string
	stop    func()
}

// newHouse makes the fakes and an Engine that does not run yet.
func newHouse(t *testing.T, change ...func(*engine.Config)) *house {
	h := &house{t: t, dialect: newDialect(), dir: t.TempDir()}
	h.runner = &fakeRunner{t: t, dialect: h.dialect}
	h.cfg = engine.Config{
		Node: "test", StateDir: filepath.Join(h.dir, "state"), Dialect: h.dialect,
		Runners: map[engine.RunnerKind]engine.Runner{engine.RunnerNative: h.runner},
		Log:     slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&h.cfg)
	}
	h.remake()
	return h
}

// remake is a restart of the node: a new Engine over the same state and processes.
func (h *house) remake() {
	if h.stop != nil {
		h.stop()
	}
	e, err := engine.New(h.cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	h.Engine, h.stop = e, func() {}
}

// run runs the Engine until the test ends or stop is called.
func (h *house) run(models ...engine.Model) {
	h.Apply(models)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func(e *engine.Engine) { done <- e.Run(ctx) }(h.Engine)
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Errorf("Run: %v", err)
		}
	})
	h.t.Cleanup(h.stop)
}

// model makes a native model with a file of its own.
func (h *house) model(name string, backends, parallel int) engine.Model {
	h.t.Helper()
	path := filepath.Join(h.dir, filepath.Base(name)+".gguf")
	if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return engine.Model{
		Name: name, Path: path, Runner: engine.RunnerNative, Binary: "llama-server", Context: 4096,
		Parallel: parallel, Backends: make([]engine.BackendSpec, backends), StartupTimeout: time.Minute,
	}
}

// external makes a model on a foreign server and that server.
func (h *house) external(name string, parallel int) (engine.Model, *fakeEngine) {
	f := h.dialect.add("http://"+name, &fakeEngine{progress: -1})
	return engine.Model{
		Name: name, Runner: engine.RunnerExternal, URL: "http://" + name, Parallel: parallel,
		Backends: make([]engine.BackendSpec, 1),
	}, f
}

func (h *house) state(backend string) engine.BackendState {
	h.t.Helper()
	for _, m := range h.Snapshot() {
		for _, b := range m.Backends {
			if b.ID == backend {
				return b
			}
		}
	}
	h.t.Fatalf("no backend %s in the snapshot", backend)
	return engine.BackendState{}
}

func (h *house) want(backend string, s engine.State) engine.BackendState {
	h.t.Helper()
	b := h.state(backend)
	if b.State != s {
		h.t.Fatalf("%s is %s (%s), want %s", backend, b.State, b.Err, s)
	}
	return b
}

func (h *house) waiting(model string) int {
	for _, m := range h.Snapshot() {
		if m.Model.Name == model {
			return m.Waiting
		}
	}
	return -1
}

func (h *house) acquire(r engine.Request) *engine.Lease {
	h.t.Helper()
	l, err := h.Acquire(context.Background(), r)
	if err != nil {
		h.t.Fatal(err)
	}
	return l
}

// inBubble runs a test on fake time; it fails when a goroutine is left.
func inBubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t) })
}

// pass lets d of fake time go by and everything settle.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func busySlots(n, of int) func() ([]engine.SlotState, error) {
	return func() ([]engine.SlotState, error) {
		slots := make([]engine.SlotState, of)
		for i := range slots {
			slots[i] = engine.SlotState{ID: i, Processing: i < n}
		}
		return slots, nil
	}
}
