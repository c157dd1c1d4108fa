package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"viiwork/engine"
)

// fakeRunner starts processes in memory. They outlive an Engine, as real ones do.
type fakeRunner struct {
	t       *testing.T
	dialect *fakeDialect
	mu      sync.Mutex
	n       int
	procs   []*fakeProcess // all ever started
	loads   time.Duration  // how long a process loads
	failing func(engine.Spec) error
	findErr error
	probes  int
	made    func(*fakeProcess) // called on each process before it is handed out
	fixed   string             // URL of every process; "" = its own
}

func (r *fakeRunner) Probe(ctx context.Context, m engine.Model, args ...string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probes++
	return "build 1", nil
}

func (r *fakeRunner) Find(ctx context.Context) ([]engine.Process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.findErr != nil {
		return nil, r.findErr
	}
	var living []engine.Process
	for _, p := range r.procs {
		if p.alive() {
			living = append(living, p)
		}
	}
	return living, nil
}

func (r *fakeRunner) Start(ctx context.Context, s engine.Spec) (engine.Process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failing != nil {
		if err := r.failing(s); err != nil {
			return nil, err
		}
	}
	for _, p := range r.procs {
		if p.rec.Backend == s.Backend && p.alive() {
			r.t.Errorf("%s was started while its last process lives", s.Backend)
		}
	}
	r.n++
	url := fmt.Sprintf("http://engine-%d", r.n)
	if r.fixed != "" {
		url = r.fixed
	}
	p := &fakeProcess{
		rec:     engine.Record{ID: fmt.Sprintf("pid %d", r.n), PID: r.n, Backend: s.Backend, Hash: s.Hash, URL: url},
		spec:    s,
		started: time.Now(),
		ended:   make(chan struct{}),
		fake:    &fakeEngine{progress: -1, ready: time.Now().Add(r.loads), slotDir: s.SlotDir},
	}
	if r.made != nil {
		r.made(p)
	}
	r.dialect.add(url, p.fake)
	r.procs = append(r.procs, p)
	return p, nil
}

func (r *fakeRunner) all() []*fakeProcess {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.procs)
}

// of lists the processes ever started for a backend.
func (r *fakeRunner) of(backend string) []*fakeProcess {
	return slices.DeleteFunc(r.all(), func(p *fakeProcess) bool { return p.rec.Backend != backend })
}

type fakeProcess struct {
	rec     engine.Record
	spec    engine.Spec
	started time.Time
	fake    *fakeEngine
	log     string

	mu      sync.Mutex
	ended   chan struct{}
	exit    engine.Exit
	stopped bool // by us
	stays   int  // times that it cannot be stopped yet

	lost chan error // the runner loses sight of it, and it lives; nil = never
}

func (p *fakeProcess) Record() engine.Record { return p.rec }

func (p *fakeProcess) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *fakeProcess) wasStopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped
}

// die ends the process by itself.
func (p *fakeProcess) die(reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alive() {
		p.exit = engine.Exit{Code: 1, Reason: reason}
		close(p.ended)
	}
	p.fake.set(func(f *fakeEngine) { f.checkErr = errors.New("connection refused") })
}

func (p *fakeProcess) Wait(ctx context.Context) (engine.Exit, error) {
	select {
	case <-p.ended:
		return p.exit, nil
	case err := <-p.lost:
		return engine.Exit{}, err
	case <-ctx.Done():
		return engine.Exit{}, ctx.Err()
	}
}

func (p *fakeProcess) Stop(ctx context.Context) error {
	p.mu.Lock()
	stays := p.stays > 0
	p.stays--
	p.mu.Unlock()
	if stays {
		return errors.New("the daemon does not answer")
	}
	p.die("killed by SIGTERM")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	return ctx.Err()
}

func (p *fakeProcess) Logs(ctx context.Context, w io.Writer, tail int, follow bool) error {
	if _, err := io.WriteString(w, p.log); err != nil || !follow {
		return err
	}
	select {
	case <-ctx.Done():
	case <-p.ended:
	}
	return nil
}
