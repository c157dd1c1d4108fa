package enginetest

import (
	"slices"
	"sync"
)

// similarEnough is the share of a prompt that an idle slot must hold to be chosen for it.
const similarEnough = 0.10

// keptEnough is the share of a slot's tokens that must stay of use; below it they go to the RAM cache first.
const keptEnough = 0.5

// worthLoading is the share of a conversation in the RAM cache that must be of use for it to be loaded.
const worthLoading = 0.25

// slot is one seat of the engine. All fields are guarded by slotTable.mu; tokens may be read without it by whoever
// holds the slot.
type slot struct {
	id      int
	busy    bool
	used    bool // ever
	lastUse int  // when it was last let go, by slotTable.clock

	tokens    []byte // what its KV cache holds
	cold      bool   // and yet it is of no use: Faults.ColdRestore
	task      int
	params    taskParams
	processed int
	cached    int
	decoded   int
	remain    int
}

// taskParams is what GET /slots tells about the last task of a slot.
type taskParams struct {
	max, predict int
	stream       bool
}

// waiter stands in line for a slot.
type waiter struct {
	want    int    // slot id, -1 = any
	prompt  []byte // nil for an action on the slot itself
	granted chan *slot
}

// slotTable owns the slots, the line before them, and the prompt cache in host RAM.
type slotTable struct {
	mu       sync.Mutex
	slots    []*slot
	line     []*waiter
	clock    int
	tasks    int
	ram      [][]byte // conversations moved out of slots, oldest first
	ramLimit int
	totals   totals
}

// totals feed GET /metrics.
type totals struct {
	prompt, cached, predicted, decodes, longest int
	promptSeconds, predictedSeconds             float64
}

func newSlotTable(o Options) *slotTable {
	t := &slotTable{ramLimit: o.PromptCache}
	for id := range o.Slots {
		t.slots = append(t.slots, &slot{id: id})
	}
	return t
}

// ask gives a free slot at once, or a waiter to be served in turn.
func (t *slotTable) ask(want int, prompt []byte) (*slot, *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &waiter{want: want, prompt: prompt}
	if s := t.take(w); s != nil {
		return s, nil
	}
	w.granted = make(chan *slot, 1)
	t.line = append(t.line, w)
	return nil, w
}

// leave takes a waiter out of the line; a slot it was granted meanwhile goes on to the next.
func (t *slotTable) leave(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.line, w); i >= 0 {
		t.line = slices.Delete(t.line, i, i+1)
		return
	}
	t.release(<-w.granted)
}

// free hands a slot on after a generation.
func (t *slotTable) free(s *slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clock++
	s.lastUse = t.clock
	t.release(s)
}

// unseize hands a slot on after an action on it, which is no use of it.
func (t *slotTable) unseize(s *slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.release(s)
}

// release hands a slot to the first waiter it suits.
func (t *slotTable) release(s *slot) {
	s.busy = false
	for i, w := range t.line {
		if got := t.take(w); got != nil {
			t.line = slices.Delete(t.line, i, i+1)
			w.granted <- got
			return
		}
	}
}

// take finds and marks the slot for w: the one it names (beyond the last, numbers wrap), else the idle one that holds
// most of the prompt, else the stalest. Only the last two look into the RAM cache.
func (t *slotTable) take(w *waiter) *slot {
	if w.want >= 0 {
		s := t.slots[w.want%len(t.slots)]
		if s.busy {
			return nil
		}
		t.mark(s, w)
		return s
	}
	var oldest, best *slot
	shared := 0
	for _, s := range t.slots {
		if s.busy {
			continue
		}
		if oldest == nil || s.staler(oldest) {
			oldest = s
		}
		if n := prefixLen(s.tokens, w.prompt); n > shared {
			best, shared = s, n
		}
	}
	if oldest == nil {
		return nil
	}
	if best == nil || float64(shared) <= similarEnough*float64(len(w.prompt)) {
		best = oldest
	}
	t.swap(best, w.prompt)
	t.mark(best, w)
	return best
}

// staler orders slots for a prompt that none holds: empty ones first, then by time since their last use.
func (s *slot) staler(than *slot) bool {
	if empty := len(s.tokens) == 0; empty != (len(than.tokens) == 0) {
		return empty
	}
	return s.lastUse < than.lastUse
}

func (t *slotTable) mark(s *slot, w *waiter) {
	s.busy = true
	if w.prompt != nil {
		s.used = true
		s.task, t.tasks = t.tasks, t.tasks+1
	}
}

// swap moves what s holds to the RAM cache, when little of it would stay of use, and brings the best match back: one
// that shares more with the prompt and of which more stays of use.
func (t *slotTable) swap(s *slot, prompt []byte) {
	shared := prefixLen(s.tokens, prompt)
	share := func(n int, of []byte) float64 { return float64(n) / float64(max(len(of), 1)) }
	if t.ramLimit == 0 || share(shared, s.tokens) >= keptEnough {
		return
	}
	keep := share(shared, s.tokens)
	t.store(s.tokens)
	found := -1
	for i, held := range t.ram {
		n := prefixLen(held, prompt)
		if k := share(n, held); k >= worthLoading && k > keep && n > shared {
			found, shared, keep = i, n, k
		}
	}
	if found >= 0 {
		s.tokens = t.ram[found]
		t.ram = slices.Delete(t.ram, found, found+1)
	}
}

// store adds a conversation to the RAM cache, in place of those that it continues.
func (t *slotTable) store(tokens []byte) {
	if len(tokens) == 0 {
		return
	}
	for _, held := range t.ram {
		if prefixLen(held, tokens) == len(tokens) {
			return
		}
	}
	t.ram = slices.DeleteFunc(t.ram, func(held []byte) bool { return prefixLen(held, tokens) == len(held) })
	t.ram = append(t.ram, tokens)
	if over := len(t.ram) - t.ramLimit; over > 0 {
		t.ram = slices.Delete(t.ram, 0, over)
	}
}

// update changes fields of a slot under the lock.
func (t *slotTable) update(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
}

func (t *slotTable) queued() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.line)
}

// emptyAll forgets what slots and cache hold, as a new process would.
func (t *slotTable) emptyAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ram = nil
	for _, s := range t.slots {
		if !s.busy {
			s.tokens, s.used = nil, false
		}
	}
}
