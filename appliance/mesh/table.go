package mesh

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// staleAfter is how long what a member said is believed, if it says no more.
	staleAfter = 3 * time.Second
	// markFor is how long a refusal outweighs a beat: about as long as a change takes to get here.
	markFor = 100 * time.Millisecond
)

// Table is what this node knows of the others' capacity. A Watcher writes it.
type Table struct {
	stale time.Duration
	clock awakeClock // a Watcher gives its beat

	mu      sync.Mutex // of writers
	records atomic.Pointer[[]*record]
	changed chan struct{} // closed by the next change; nil while nobody waits for one
}

// record is one member. It is never changed, only replaced.
type record struct {
	member  Member
	gone    bool            // gossip no longer has it
	report  *Report         // the last one; nil = never heard
	known   []string        // its models
	heard   time.Time       // when it last spoke, by the table's clock
	fault   error           // why it cannot be followed, nil = it is
	full    map[string]mark // by model
	strikes int             // quarantines in a row
	held    bool            // in quarantine
	freed   time.Time       // when the last quarantine ended
}

// mark is a member that has refused a request for a model.
type mark struct {
	at         time.Time
	epoch, seq uint64 // of the report at that time
}

// NodeState is one member as it stands at one moment.
type NodeState struct {
	Member      Member
	Age         time.Duration // since it last spoke; -1 = never
	Report      *Report       // nil unless it is fresh: an old figure is none
	Known       []string      // models it had when it last spoke
	Quarantined bool          // fell silent with a request at it, and has not proved to be back
	Gone        bool          // gossip has lost it
	Fault       string        // why it cannot be followed; "" = it is
	full        map[string]mark
}

// NewTable makes an empty Table. A member is stale after that long without a word; 0 = 3 s.
func NewTable(stale time.Duration) *Table {
	if stale <= 0 {
		stale = staleAfter
	}
	t := &Table{stale: stale}
	t.records.Store(&[]*record{})
	return t
}

// Changed is closed once the table is not what it is now: a member has spoken, was marked, came or went. That one has
// become stale is not told, since nothing happens then. Ask before taking the Snapshot, and anew after each change.
func (t *Table) Changed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}

// publish makes records what everybody reads. It wants the lock held.
func (t *Table) publish(records []*record) {
	t.records.Store(&records)
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// Snapshot tells how all members stand, by name. What its states point to is shared and must not be changed.
func (t *Table) Snapshot() []NodeState {
	records := *t.records.Load()
	now := t.clock.now()
	all := make([]NodeState, 0, len(records))
	for _, r := range records {
		all = append(all, r.state(now, t.stale))
	}
	return all
}

func (r *record) state(now time.Time, stale time.Duration) NodeState {
	s := NodeState{Member: r.member, Age: -1, Quarantined: r.held, Gone: r.gone}
	if r.fault != nil {
		s.Fault = r.fault.Error()
	}
	if r.report == nil {
		return s
	}
	s.Age = now.Sub(r.heard)
	s.Known = r.known
	if s.Age < stale {
		s.Report, s.full = r.report, r.full
	}
	return s
}

// Model tells what the member may be asked for, as far as anyone knows: false when it is stale, in quarantine or has no
// such model. A member that drains, or has just refused a request for the model, has no free slot.
func (s NodeState) Model(name string) (Model, bool) {
	if s.Report == nil || s.Quarantined {
		return Model{}, false
	}
	m, ok := s.Report.model(name)
	if !ok {
		return Model{}, false
	}
	if _, full := s.full[name]; full || s.Report.Draining {
		m.Backends = slices.Clone(m.Backends)
		for i := range m.Backends {
			m.Backends[i].Free = 0
		}
	}
	return m, true
}

// MarkFull says that the member has refused a request for the model for want of a slot. It counts as full until it has
// told something newer.
func (t *Table) MarkFull(id, model string) {
	t.change(id, func(r *record) bool {
		if r.report == nil {
			return false
		}
		if _, has := r.report.model(model); !has {
			return false // the marks are bounded by the models
		}
		full := make(map[string]mark, len(r.full)+1)
		for k, v := range r.full {
			full[k] = v
		}
		full[model] = mark{at: t.clock.now(), epoch: r.report.Epoch, seq: r.report.Seq}
		r.full = full
		return true
	})
}

// hear takes a member's word: a newer report, or the same one again, which says that it still holds.
func (t *Table) hear(id string, report *Report) {
	t.change(id, func(r *record) bool {
		now := t.clock.now()
		if r.report != report {
			r.known = report.names()
		}
		r.report, r.heard, r.fault = report, now, nil
		var full map[string]mark
		for model, m := range r.full {
			if m.epoch == report.Epoch && m.seq == report.Seq && now.Sub(m.at) < markFor {
				if full == nil {
					full = map[string]mark{}
				}
				full[model] = m
			}
		}
		r.full = full
		return true
	})
}

// fail notes why a member cannot be followed. What it said before stands until it is stale.
func (t *Table) fail(id string, err error) {
	t.change(id, func(r *record) bool {
		r.fault = err
		return true
	})
}

// heard is when the member last spoke, zero if it never did or is none.
func (t *Table) heard(id string) time.Time {
	if r := t.record(id); r != nil {
		return r.heard
	}
	return time.Time{}
}

func (t *Table) record(id string) *record {
	for _, r := range *t.records.Load() {
		if r.member.ID == id {
			return r
		}
	}
	return nil
}

// change replaces one record by what edit makes of its copy, if edit says so.
func (t *Table) change(id string, edit func(*record) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	records := *t.records.Load()
	i := slices.IndexFunc(records, func(r *record) bool { return r.member.ID == id })
	if i < 0 {
		return
	}
	r := *records[i]
	if !edit(&r) {
		return
	}
	records = slices.Clone(records)
	records[i] = &r
	t.publish(records)
}

// sync makes the table hold the members that gossip has, and those it has lost as long as they still speak: gossip may
// be wrong about a node that answers.
func (t *Table) sync(members map[string]Member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.now()
	var records []*record
	have := map[string]bool{}
	for _, old := range *t.records.Load() {
		m, there := members[old.member.ID]
		if !there && (old.report == nil || now.Sub(old.heard) >= t.stale) {
			continue
		}
		r := *old
		if r.gone = !there; there {
			r.member = m
		}
		have[r.member.ID] = true
		records = append(records, &r)
	}
	for id, m := range members {
		if !have[id] {
			records = append(records, &record{member: m})
		}
	}
	slices.SortFunc(records, func(a, b *record) int {
		if c := strings.Compare(a.member.Name, b.member.Name); c != 0 {
			return c
		}
		return strings.Compare(a.member.ID, b.member.ID)
	})
	t.publish(records)
}
