package engine

import (
	"sync/atomic"
	"time"
)

// backend is one engine process of a model, or one foreign server, over all its restarts.
type backend struct {
	engine *Engine
	entry  *entry
	model  Model
	id     string
	gpus   []int
	after  []<-chan struct{} // ends to wait for before the first start
	done   chan struct{}     // closed when its life is over
	wake   chan struct{}     // holds one: a lease left, or a seat waits to be let go
	waited chan struct{}     // closed when somebody waits for its end
	moved  atomic.Int64      // unix ns of the last byte or progress seen

	// The rest is guarded by engine.mu.
	cancel       func(error)
	launched     bool
	name         string   // of its engine: the berth it is in
	next         *backend // its successor, until that is in its place; nil = none
	before       *backend // whose successor it is, until it is in its place; nil = nobody's
	changes      bool     // it has the turn to change
	refused      string   // why its last successor did not come up
	calm         bool     // removed, and nobody waits for its end: it may finish what it runs
	rank         int      // place in the order of loading
	state        State
	progress     float64
	err          string
	build        string
	props        Props
	target       Target
	proc         Process
	procChanged  chan struct{} // closed when proc changes
	record       Record
	adopted      bool
	restarts     int
	readySince   time.Time // zero when not ready
	waitsForFind bool
	leases       map[*Lease]struct{}
	slots        []SlotState // as the engine last told
	slotsFresh   bool        // with no request running, then or since
	slotDir      string      // where its engine was told to keep slot files; "" = nowhere
	traits       KVTraits    // of its engine, as far as its arguments tell
	works        map[*slotWork]struct{}
	workEnd      time.Time            // of the last of them
	unwanted     map[string]time.Time // files that its engine may still write, and since when nobody wants them

	// Of the life's own goroutine.
	started   bool          // has had a process
	readyFor  time.Duration // how long the last round was ready
	warned    string        // what the log was last told about it
	failures  int           // rounds in a row that ended badly
	stillborn int           // of these, the last ones that ended before they were ready
	misplaced bool          // was restarted for sitting on wrong cards
	leftover  Process       // could not be stopped
}

func newBackend(e *Engine, en *entry, n int, gpus []int) *backend {
	return &backend{
		engine: e, entry: en, model: en.model, id: backendID(en.model.Name, n), gpus: gpus,
		name: backendID(en.model.Name, n), waited: make(chan struct{}),
		done: make(chan struct{}), wake: make(chan struct{}, 1),
		state: StateStarting, progress: -1, procChanged: make(chan struct{}), leases: map[*Lease]struct{}{},
		works: map[*slotWork]struct{}{}, unwanted: map[string]time.Time{},
	}
}

func (b *backend) isDone() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

func (b *backend) external() bool { return b.model.Runner == RunnerExternal }

// slotContext wants the lock held.
func (b *backend) slotContext() int {
	if b.props.Context > 0 {
		return b.props.Context
	}
	return b.model.Context
}

// nudge wakes whoever watches the leases and seats of this backend.
func (b *backend) nudge() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// set changes the state and tells the owner when it is news.
func (b *backend) set(s State, attrs ...any) {
	e := b.engine
	e.mu.Lock()
	name, news := b.name, b.state != s
	b.state = s
	if s != StateLoading {
		b.progress = -1
	}
	if news {
		e.cfg.Changed()
	}
	e.mu.Unlock()
	if news {
		e.cfg.Log.Info("backend changed state", append([]any{"backend", name, "state", string(s)}, attrs...)...)
	}
}

// note keeps why the backend is not as it should be; nil clears it.
func (b *backend) note(err error) {
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	b.err = ""
	if err != nil {
		b.err = err.Error()
	}
}

// attach makes p, nil for none, the process of this backend.
func (b *backend) attach(p Process, adopted bool) {
	var r Record
	if p != nil {
		r = p.Record()
	}
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	b.proc, b.record, b.adopted = p, r, adopted
	close(b.procChanged)
	b.procChanged = make(chan struct{})
}

// open gives the backend's seats to its line.
func (b *backend) open(t Target, p Props, seats, occupied int) {
	e := b.engine
	now := time.Now()
	b.moved.Store(0)
	defer b.changed() // the next one may, unless the one before is still to end
	e.mu.Lock()
	defer e.mu.Unlock()
	b.target, b.props, b.readySince, b.err = t, p, now, ""
	b.slots, b.slotsFresh = nil, false
	if p.Build != "" && b.build == "" {
		b.build = p.Build
	}
	if e.ended || e.entry(b.model.Name) != b.entry || !b.handOver() {
		return // removed meanwhile
	}
	b.state, b.progress = StateReady, -1
	b.entry.line.Open(b.id, seats, min(occupied, seats), now)
	e.cfg.Changed()
}

// shut takes the seats away again. Leases stay as they are.
func (b *backend) shut() {
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	if b.entry.backend(b.id) == b {
		b.entry.line.Close(b.id)
	}
	b.engine.cfg.Changed()
	b.readySince = time.Time{}
}

// seated lists the seats of its engine in the line; a successor that waits, and who was replaced, has none. It wants the
// lock held.
func (b *backend) seated() []*Seat {
	if b.entry.backend(b.id) != b {
		return nil
	}
	return b.entry.line.Seats(b.id)
}

// abort ends everything that runs on this backend.
func (b *backend) abort(err error) {
	for _, l := range b.held() {
		l.abort(err)
	}
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	for w := range b.works {
		w.cancel(err)
	}
}

func (b *backend) held() []*Lease {
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	all := make([]*Lease, 0, len(b.leases))
	for l := range b.leases {
		all = append(all, l)
	}
	return all
}
