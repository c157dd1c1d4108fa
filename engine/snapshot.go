package engine

import (
	"slices"
	"time"
)

// ModelState is one model as it stands. Its slices are read, never changed.
type ModelState struct {
	Model   Model
	Waiting int // requests in the line
	// Hold is how long a slot is taken by one request, averaged over the last ones; 0 = not known yet.
	Hold     time.Duration
	Backends []BackendState
}

// BackendState is one backend as it stands.
type BackendState struct {
	ID         string
	State      State
	Progress   float64 // 0…1 while loading, -1 unknown
	Build      string  // of the engine, "" before it is known
	Process    string  // container id or "pid N", "" without a process
	GPUs       []int
	Restarts   int
	Err        string // why it is not ready, with the engine's last words
	Slots      []SlotView
	Context    int // tokens per slot, 0 before it is known
	ReadySince time.Time
	Waiting    int     // requests in the line that accept no other backend
	Adopted    bool    // its process was started by an earlier run
	Change     *Change // to another engine; nil = it has the one that is wanted, and no other
}

// SlotView is one slot as it stands.
type SlotView struct {
	ID      int
	State   string // free, busy, releasing
	Session string // digest, "" = none
	Tokens  int    // tokens held when the engine was last asked, -1 unknown
}

// Snapshot tells how all models stand, in the owner's order. It waits for no network.
func (e *Engine) Snapshot() []ModelState {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]ModelState, 0, len(e.order))
	for _, en := range e.order {
		m := ModelState{Model: en.model, Waiting: en.line.Len(), Hold: en.hold.mean, Backends: make([]BackendState, 0, len(en.backends))}
		for _, b := range en.backends {
			v := b.view()
			v.Waiting = en.line.Only(b.id)
			m.Backends = append(m.Backends, v)
		}
		all = append(all, m)
	}
	return all
}

// SlotContext is the tokens one request can have wherever it runs: the least of what the backends' engines say, which
// may be less than was asked for; what was asked for while none has said anything.
func (m ModelState) SlotContext() int {
	least := 0
	for _, b := range m.Backends {
		if b.Context > 0 && (least == 0 || b.Context < least) {
			least = b.Context
		}
	}
	if least == 0 {
		return m.Model.Context
	}
	return least
}

// view wants the lock held.
func (b *backend) view() BackendState {
	v := BackendState{
		ID: b.id, State: b.state, Progress: b.progress, Build: b.build, Process: b.record.ID,
		GPUs: slices.Clone(b.gpus), Restarts: b.restarts, Err: b.err, Context: b.props.Context,
		ReadySince: b.readySince, Adopted: b.adopted, Change: b.changing(),
	}
	if err := b.engine.findErr[b.model.Runner]; err != nil && b.waitsForFind {
		v.Err = err.Error()
	}
	if b.engine.draining && (b.state == StateReady || b.state == StateBusy) {
		v.State = StateDraining
	}
	for _, s := range b.entry.line.Seats(b.id) {
		v.Slots = append(v.Slots, SlotView{ID: s.N, State: string(s.State), Session: s.Session, Tokens: b.tokens(s.N)})
	}
	return v
}

// tokens of slot n. While requests run nobody knows which seat stands for which of the engine's slots, so then it is
// not known.
func (b *backend) tokens(n int) int {
	if b.slotsFresh {
		for _, s := range b.slots {
			if s.ID == n {
				return s.Tokens
			}
		}
	}
	return -1
}
