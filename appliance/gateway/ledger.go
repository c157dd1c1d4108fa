package gateway

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"viiwork/appliance/status"
)

// rows is how many requests /api/requests remembers, running ones among them.
const rows = 1000

// ledger keeps the last requests in a ring. A running request pushed out of it runs on and is only no longer listed.
type ledger struct {
	mu      sync.Mutex // guards all below
	ring    []*entry   // oldest at next once full
	next    int
	byID    map[string]*entry
	running map[*entry]struct{} // bounded by what is in flight, in the ring or not
}

// entry is one request's row. Its owner changes it, anybody reads copies.
type entry struct {
	cancel context.CancelCauseFunc

	mu  sync.Mutex // guards what follows
	row status.Request
	why decision // the zero one = it was not planned here
}

func newLedger() *ledger {
	return &ledger{ring: make([]*entry, 0, rows), byID: make(map[string]*entry, rows), running: map[*entry]struct{}{}}
}

func (l *ledger) add(row status.Request, cancel context.CancelCauseFunc) *entry {
	e := &entry{row: row, cancel: cancel}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ring) < rows {
		l.ring = append(l.ring, e)
	} else {
		delete(l.byID, l.ring[l.next].row.ID) // the id never changes after add
		l.ring[l.next] = e
		l.next = (l.next + 1) % rows
	}
	l.byID[row.ID] = e
	l.running[e] = struct{}{}
	return e
}

// ended notes that nothing of e's request runs any more.
func (l *ledger) ended(e *entry) {
	l.mu.Lock()
	delete(l.running, e)
	l.mu.Unlock()
}

// endAll ends every running request with that cause.
func (l *ledger) endAll(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := range l.running {
		e.cancel(cause)
	}
}

// update changes the row; f must be quick.
func (e *entry) update(f func(*status.Request)) {
	e.mu.Lock()
	f(&e.row)
	e.mu.Unlock()
}

func (e *entry) copy() status.Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.row
}

// last returns up to n rows, newest first.
func (l *ledger) last(n int) []status.Request {
	l.mu.Lock()
	n = max(0, min(n, len(l.ring)))
	out := make([]*entry, 0, n)
	for i := range n {
		out = append(out, l.ring[(l.next+len(l.ring)-1-i)%len(l.ring)])
	}
	l.mu.Unlock()
	list := make([]status.Request, len(out))
	for i, e := range out {
		list[i] = e.copy()
	}
	return list
}

// going returns up to n of those that run, newest first, also those that the ring has lost.
func (l *ledger) going(n int) []status.Request {
	l.mu.Lock()
	all := slices.Collect(maps.Keys(l.running))
	l.mu.Unlock()
	list := make([]status.Request, len(all))
	for i, e := range all {
		list[i] = e.copy()
	}
	slices.SortFunc(list, func(x, y status.Request) int {
		return cmp.Or(y.Time.Compare(x.Time), strings.Compare(x.ID, y.ID))
	})
	return list[:min(n, len(list))]
}

// older counts those that run and came before t.
func (l *ledger) older(t time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for e := range l.running {
		if e.copy().Time.Before(t) {
			n++
		}
	}
	return n
}

func (l *ledger) find(id string) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byID[id]
}

// Requests returns the last n requests, newest first, running ones among them.
func (g *Gateway) Requests(n int) []status.Request { return g.ledger.last(n) }

// Request returns one of the remembered requests, with its plan if it came in by this node.
func (g *Gateway) Request(id string) (status.Request, bool) {
	e := g.ledger.find(id)
	if e == nil {
		return status.Request{}, false
	}
	row := e.copy()
	row.Plan = g.shown(e.planned())
	return row, true
}

// Cancel ends a running request and closes its engine's connection. It reports whether there was one to end.
func (g *Gateway) Cancel(id string) bool {
	e := g.ledger.find(id)
	if e == nil || e.copy().State == stateDone {
		return false
	}
	e.cancel(errCancelled)
	return true
}

// CancelAll ends every running request: each client that streams gets its error event.
func (g *Gateway) CancelAll() { g.ledger.endAll(errStopped) }

// Inflight is the number of inference requests being answered now.
func (g *Gateway) Inflight() int { return int(g.inflight.Load()) }

// Older is the number of requests being answered that came before t.
func (g *Gateway) Older(t time.Time) int { return g.ledger.older(t) }
