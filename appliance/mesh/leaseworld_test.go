package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"viiwork/appliance/mesh"
)

// leaseCase is a small world of one owner and the asks of a few entries.
type leaseCase struct {
	name     string
	seats    int      // of each backend
	backends []string // a, b
	asks     []leaseAsk
	reliable bool // no message is lost
	fragile  bool // a grant may come, and seem to the owner not to have
	deaths   int  // entries that may die without a word
	reborn   bool // they may come back
	restarts int  // of the owner
	fault    string
}

type leaseAsk struct {
	entry   int
	accepts []string // nil = any backend
}

// Where an ask is at its entry, and at the owner.
const (
	atStart = iota
	atAsked
	atGranted
	atForwarded
	atEnd
)

const (
	handlerNone = iota
	handlerEntered
	handlerStands
	handlerEnded
)

// journey is one ask with all that is on its way because of it.
type journey struct {
	leaseAsk
	entryAt, handler              int
	ask, answer, forward          bool // on their way
	giveBack, closeAsk, hangUp    bool
	lease                         string
	claim                         *mesh.Claim[*loan]
	place                         mesh.Place[*loan]
	runs, was                     *loan // the seat of the forward that runs; the one granted last
	unbind                        func()
	granted                       time.Time
	handlerEnds, forwardEnds, own bool // told to end; own: its lease was of this run of the owner
}

// leaseWorld drives the real book and the real line, one step at a time. Each step is one that the Desk, an entry or the
// network takes without anything else happening in between.
type leaseWorld struct {
	leaseCase
	saw      *witness
	loft     *loft
	book     *mesh.Book[*loan]
	now      time.Time
	journeys []*journey
	died     map[int]bool
	heardAt  map[int]time.Time // of the dead, as the book has it
	leases   int
}

// witness notes what the loft finds wrong.
type witness struct {
	testing.TB
	said []string
}

func (w *witness) Errorf(format string, args ...any) {
	w.said = append(w.said, fmt.Sprintf(format, args...))
}

func (w *witness) Error(args ...any) { w.said = append(w.said, fmt.Sprint(args...)) }

func newLeaseWorld(c leaseCase) *leaseWorld {
	w := &leaseWorld{leaseCase: c, saw: &witness{}, now: time.Unix(1000, 0), died: map[int]bool{}, heardAt: map[int]time.Time{}}
	for _, a := range c.asks {
		w.journeys = append(w.journeys, &journey{leaseAsk: a})
	}
	w.open()
	return w
}

func (w *leaseWorld) open() {
	w.loft = newLoft(w.saw, 8, w.seats, w.backends...)
	w.book = mesh.NewBook[*loan]()
}

func entryName(n int) string { return string(rune('A' + n)) }

// cancel is an entry that wants its ask, or its forward, no more.
func (j *journey) cancel() {
	switch j.entryAt {
	case atAsked:
		j.closeAsk = true
	case atGranted:
		j.giveBack = true
	case atForwarded:
		j.hangUp = true
	}
	j.entryAt = atEnd
}

func (j *journey) giveUpOn(at int) {
	if j.entryAt == at {
		j.entryAt = atEnd
	}
}

func (w *leaseWorld) hears(entry int) {
	if w.died[entry] {
		w.heardAt[entry] = w.now
	}
}

func (w *leaseWorld) enter(j *journey) {
	w.hears(j.entry)
	c, err := w.book.Enter(entryName(j.entry), "m", func(error) { j.handlerEnds = true; w.wantDead(j) }, w.now)
	if err != nil {
		w.saw.Errorf("an ask was refused: %v", err)
		return
	}
	j.claim, j.handler = c, handlerEntered
}

// wantDead is said of a journey whose entry has been given up.
func (w *leaseWorld) wantDead(j *journey) {
	if !w.died[j.entry] {
		w.saw.Errorf("entry %s lives and was given up", entryName(j.entry))
	}
}

func (w *leaseWorld) join(j *journey) {
	p, err := w.loft.join(mesh.Ask{Model: "m", Backends: j.accepts, WaitMS: minute})
	if err != nil {
		w.saw.Errorf("a place was refused: %v", err)
		return
	}
	if !w.book.Stand(j.claim, p) {
		if w.fault != "a place taken after the loss is kept" {
			p.Leave()
		}
		j.handler = handlerEnded
		return
	}
	j.place, j.handler = p, handlerStands
}

func (w *leaseWorld) look(j *journey) {
	w.leases++
	id := fmt.Sprint("lease ", w.leases)
	_, err := w.book.Collect(j.claim, id, w.now)
	switch {
	case j.handlerEnds && errors.Is(err, mesh.ErrOver):
		w.drop(j)
		return
	case err != nil || j.handlerEnds:
		w.saw.Errorf("a place that is done was collected with %v; it had been given up: %v", err, j.handlerEnds)
		return
	}
	seats, _, _ := w.book.Holds()
	for _, s := range seats {
		if s.seat == j.place.(*ticket).w.Seat {
			j.was = s
		}
	}
	j.lease, j.answer, j.own, j.granted, j.handler, j.place = id, true, true, w.now, handlerEnded, nil
}

// drop is the handler's end without a seat.
func (w *leaseWorld) drop(j *journey) {
	f := w.book.Drop(j.claim)
	if w.fault != "a seat granted to who has cancelled is kept" || !isDoneJourney(j) {
		f.GiveUp(errors.New("dropped"))
	}
	j.handler, j.place = handlerEnded, nil
}

func isDoneJourney(j *journey) bool { return j.place != nil && isClosed(j.place.Done()) }

// arrive is a forward whose headers have come. Whose lease is none gets a free seat or is refused.
func (w *leaseWorld) arrive(j *journey) {
	who := entryName(j.entry)
	for _, wrong := range [][2]string{{"Z", "m"}, {who, "other"}} {
		if _, ok := w.book.Redeem(wrong[0], j.lease, wrong[1], w.now); ok {
			w.saw.Errorf("a lease was redeemed by %s for %s", wrong[0], wrong[1])
		}
	}
	w.hears(j.entry)
	seat, ok := w.book.Redeem(who, j.lease, "m", w.now)
	if ok {
		if _, again := w.book.Redeem(who, j.lease, "m", w.now); again {
			w.saw.Errorf("a lease was redeemed twice")
		}
	} else if w.fault == "a lapsed lease is redeemed" && j.own {
		seat, ok = j.was, true
	}
	if !ok {
		p, err := w.loft.join(mesh.Ask{Model: "m"})
		if err != nil {
			j.giveUpOn(atForwarded)
			return
		}
		seat, err = p.Collect()
		if err != nil {
			w.saw.Errorf("a free seat was not collected: %v", err)
			return
		}
	}
	j.runs = seat
	var end context.CancelCauseFunc = func(error) { j.forwardEnds = true; w.wantDead(j) }
	j.unbind = w.book.Bind(who, end, w.now)
}

func (w *leaseWorld) returned(j *journey) {
	w.hears(j.entry)
	f, ok := w.book.GiveBack(entryName(j.entry), j.lease, w.now)
	f.GiveUp(errors.New("returned"))
	if !ok && w.fault == "a lapsed lease is given back" && j.own {
		j.was.Release()
	}
}

func (w *leaseWorld) finish(j *journey) {
	if j.runs == nil {
		return
	}
	j.runs.Release()
	j.unbind()
	j.runs = nil
	j.giveUpOn(atForwarded)
}

// pass lets time pass, a second at a time, each with a sweep, in which all are heard but the dead.
func (w *leaseWorld) pass(d time.Duration) {
	for ; d > 0; d -= time.Second {
		w.now = w.now.Add(time.Second)
		lapsed, lost := w.book.Sweep(w.now, func(id string) time.Time {
			if at, dead := w.heardAt[int(id[0]-'A')]; dead {
				return at
			}
			return w.now
		})
		if w.fault != "what has lapsed is kept" {
			lapsed.GiveUp(errors.New("lapsed"))
		}
		if w.fault != "what a lost entry waits for and runs is kept" {
			lost.GiveUp(mesh.ErrEntryLost)
		}
		for _, j := range w.journeys {
			if j.forwardEnds { // as its handler does
				w.finish(j)
			}
		}
	}
}
