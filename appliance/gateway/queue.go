package gateway

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"viiwork/engine"
)

// queues are the lines of requests that wait at this entry for a slot anywhere in the mesh. Every request for a model
// that other nodes have goes through one, most of them without a stop: only the first of a line looks for a seat, so
// that nobody overtakes.
type queues struct {
	max int // places in a line whose first waits

	mu    sync.Mutex
	lines map[lineKey]*line
	last  uint64 // ticket
}

// lineKey tells lines apart. All in one line accept the same seats: the first must not be passed by for the sake of
// what only those behind it accept.
type lineKey struct {
	model string
	host  string // id of the only node that will do; "" = any
	again bool   // some nodes have failed it: it accepts less than others
}

type line struct {
	places  []*place // by ticket
	blocked bool     // the first has found nothing free
}

// place is one request in a line.
type place struct {
	key    lineKey
	ticket uint64
	called bool
	here   bool          // stands in the engine's line, too
	err    error         // set before turn closes, if it is refused
	turn   chan struct{} // closed once it is the first, or refused
}

func newQueues(max int) *queues { return &queues{max: max, lines: map[lineKey]*line{}} }

// join takes the last place in a line; with the ticket of an earlier place, the one it had, even where the line is full
// by now: who was promised a slot and did not get it is not sent away for those who came later. 0 = a new ticket.
func (q *queues) join(key lineKey, ticket uint64) (*place, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[key]
	if l == nil {
		l = &line{}
		q.lines[key] = l
	}
	if ticket == 0 && l.blocked && len(l.places) >= q.max {
		return nil, engine.ErrLineFull
	}
	if ticket == 0 {
		q.last++
		ticket = q.last
	}
	p := &place{key: key, ticket: ticket, turn: make(chan struct{})}
	at, _ := slices.BinarySearchFunc(l.places, ticket, func(p *place, t uint64) int { return cmp.Compare(p.ticket, t) })
	l.places = slices.Insert(l.places, at, p)
	l.call()
	return p, nil
}

// call wakes the first.
func (l *line) call() {
	if len(l.places) > 0 {
		l.places[0].wake(nil)
	}
}

func (p *place) wake(err error) {
	if !p.called {
		p.called, p.err = true, err
		close(p.turn)
	}
}

// await returns once p is the first of its line, refused, or ctx has ended.
func (p *place) await(ctx context.Context) error {
	select {
	case <-p.turn: // also where ctx has ended: whose turn it is may look once
		return p.err
	default:
	}
	select {
	case <-p.turn:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// block says that the first of the line waits. A line that only passes through may be of any length; of one that waits
// the end is sent away.
func (q *queues) block(p *place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[p.key]
	if l == nil || l.blocked {
		return
	}
	l.blocked = true
	keep := min(q.max, len(l.places))
	for _, over := range l.places[keep:] {
		over.wake(engine.ErrLineFull)
	}
	l.places = slices.Delete(l.places, keep, len(l.places))
}

// leave gives up a place and calls who is the first then.
func (q *queues) leave(p *place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[p.key]
	if l == nil {
		return
	}
	at := slices.Index(l.places, p)
	if at >= 0 {
		l.places = slices.Delete(l.places, at, at+1)
	}
	if at == 0 {
		l.blocked = false
		l.call()
	}
	if len(l.places) == 0 {
		delete(q.lines, p.key)
	}
}

// alsoHere notes whether a place is in the engine's line, too.
func (q *queues) alsoHere(p *place, yes bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p.here = yes
}

// waiting counts who waits for a model and is not in the engine's line, which counts its own.
func (q *queues) waiting(model string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for key, l := range q.lines {
		if key.model != model || !l.blocked {
			continue
		}
		for _, p := range l.places {
			if !p.here {
				n++
			}
		}
	}
	return n
}
