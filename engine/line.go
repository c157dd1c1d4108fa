package engine

import (
	"slices"
	"time"
)

// Line is the waiting line of one model together with the seats of its backends: one owner for both, so that looking
// for a free seat and taking it are one act. It does no I/O, knows no clock and is not safe for concurrent use; the
// Engine's lock guards it.
//
// Between two calls no waiter stands in the line who accepts a free seat.
type Line struct {
	max     int
	granted func(*Waiter) // called on each grant, before Done closes; may be nil
	waiters []*Waiter
	benches []*bench
	last    int // bench of the last grant, so that ties go round
}

// Waiter is one place in a Line.
type Waiter struct {
	Request Request
	Seat    *Seat // set once granted
	Err     error // set when refused
	done    chan struct{}
	lease   *Lease
}

// Done is closed once Seat or Err is set.
func (w *Waiter) Done() <-chan struct{} { return w.done }

// Seat is one of the places a backend has for requests.
type Seat struct {
	Backend string
	N       int
	State   SeatState
	Session string    // of who holds it
	Since   time.Time // when it went into SeatReleasing
	bench   *bench
}

// SeatState is what a seat is doing.
type SeatState string

const (
	SeatFree      SeatState = "free"
	SeatBusy      SeatState = "busy"      // held by a lease
	SeatReleasing SeatState = "releasing" // its lease is gone, the engine has not let go yet
)

// bench is the seats of one backend, from one opening to its closing. Seats of a closed bench are worth nothing.
type bench struct {
	backend string
	open    bool
	seats   []*Seat
}

func (b *bench) free() int {
	if !b.open {
		return 0
	}
	n := 0
	for _, s := range b.seats {
		if s.State == SeatFree {
			n++
		}
	}
	return n
}

// NewLine makes a Line for at most max waiters. granted may be nil.
func NewLine(max int, granted func(*Waiter)) *Line { return &Line{max: max, granted: granted} }

// Open gives a backend its seats, the first occupied of them releasing since now: an engine that ran before may still
// work for somebody who has left.
func (l *Line) Open(backend string, seats, occupied int, now time.Time) {
	b := &bench{backend: backend, open: true}
	for n := range seats {
		s := &Seat{Backend: backend, N: n, State: SeatFree, bench: b}
		if n < occupied {
			s.State, s.Since = SeatReleasing, now
		}
		b.seats = append(b.seats, s)
	}
	if i := l.index(backend); i >= 0 {
		l.benches[i].open = false
		l.benches[i] = b
	} else {
		l.benches = append(l.benches, b)
	}
	l.dispatch()
}

// Close takes a backend's seats out of the line. Waiters with no other backend to hope for get ErrNotReady.
func (l *Line) Close(backend string) {
	if i := l.index(backend); i >= 0 {
		l.benches[i].open = false
	}
	l.refuse(func(w *Waiter) bool { return !l.hopeful(w.Request) }, ErrNotReady)
}

// Join takes a free seat at once, or the last place in the line. Errors: ErrNotReady, ErrFull, ErrLineFull.
func (l *Line) Join(r Request) (*Waiter, error) {
	if !l.hopeful(r) {
		return nil, ErrNotReady
	}
	w := &Waiter{Request: r, done: make(chan struct{})}
	if l.grant(w) {
		return w, nil
	}
	if r.NoWait {
		return nil, ErrFull
	}
	if len(l.waiters) >= l.max {
		return nil, ErrLineFull
	}
	l.waiters = append(l.waiters, w)
	return w, nil
}

// Leave gives up a place in the line. A seat that was granted meanwhile stays with the waiter.
func (l *Line) Leave(w *Waiter) {
	if i := slices.Index(l.waiters, w); i >= 0 {
		l.waiters = slices.Delete(l.waiters, i, i+1)
	}
}

// Ahead is how many stand before a waiter, 0 when it does not wait.
func (l *Line) Ahead(w *Waiter) int { return max(0, slices.Index(l.waiters, w)) }

// Hold keeps the seat of a lease that is gone until the engine has let go.
func (l *Line) Hold(s *Seat, now time.Time) {
	if s.State == SeatBusy {
		s.State, s.Since, s.Session = SeatReleasing, now, ""
	}
}

// Free hands a seat to the first waiter that accepts it.
func (l *Line) Free(s *Seat) {
	s.State, s.Session = SeatFree, ""
	if s.bench.open {
		l.dispatch()
	}
}

// Refuse sends everybody in the line away with err.
func (l *Line) Refuse(err error) { l.refuse(func(*Waiter) bool { return true }, err) }

// Len is the number of waiters.
func (l *Line) Len() int { return len(l.waiters) }

// Only is how many of them accept no other backend than this one.
func (l *Line) Only(backend string) int {
	n := 0
	for _, w := range l.waiters {
		if b := w.Request.Backends; len(b) == 1 && b[0] == backend {
			n++
		}
	}
	return n
}

// Seats shows the seats of an open backend; the slice is the caller's, the seats are the line's.
func (l *Line) Seats(backend string) []*Seat {
	i := l.index(backend)
	if i < 0 || !l.benches[i].open {
		return nil
	}
	return slices.Clone(l.benches[i].seats)
}

func (l *Line) index(backend string) int {
	return slices.IndexFunc(l.benches, func(b *bench) bool { return b.backend == backend })
}

func (l *Line) hopeful(r Request) bool {
	return slices.ContainsFunc(l.benches, func(b *bench) bool { return b.open && accepts(r, b.backend) })
}

func accepts(r Request, backend string) bool {
	return r.Backends == nil || slices.Contains(r.Backends, backend)
}

func (l *Line) refuse(who func(*Waiter) bool, err error) {
	l.waiters = slices.DeleteFunc(l.waiters, func(w *Waiter) bool {
		if !who(w) {
			return false
		}
		w.Err = err
		close(w.done)
		return true
	})
}

// dispatch serves the line from its head. It looks at everybody: somebody in front may accept none of the free seats.
func (l *Line) dispatch() {
	l.waiters = slices.DeleteFunc(l.waiters, l.grant)
}

func (l *Line) grant(w *Waiter) bool {
	b := l.choose(w.Request)
	if b == nil {
		return false
	}
	i := slices.IndexFunc(b.seats, func(s *Seat) bool { return s.State == SeatFree })
	s := b.seats[i]
	s.State, s.Session = SeatBusy, w.Request.Session
	w.Seat = s
	if l.granted != nil {
		l.granted(w)
	}
	close(w.done)
	return true
}

// choose gives the preferred backend if it has a free seat, else the one with the most, ties going round.
func (l *Line) choose(r Request) *bench {
	best, most := -1, 0
	for i := range l.benches {
		at := (l.last + 1 + i) % len(l.benches)
		b := l.benches[at]
		n := b.free()
		if n == 0 || !accepts(r, b.backend) {
			continue
		}
		if b.backend == r.Prefer {
			best = at
			break
		}
		if n > most {
			best, most = at, n
		}
	}
	if best < 0 {
		return nil
	}
	l.last = best
	return l.benches[best]
}
