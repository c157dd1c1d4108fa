package mesh

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// lapseAfter is how long a granted seat waits for its forward.
	lapseAfter = 2 * time.Second
	// lostAfter is how long nothing may be heard of an entry that has something here. Over a tailnet in user space no
	// FIN ever comes from a machine that died.
	lostAfter = 10 * time.Second

	maxClaims     = 4096 // asks and unused grants at one time
	maxClaimsEach = 256  // of one entry
	maxEntries    = 2 * maxMembers
)

// ErrEntryLost ends what a node has here that has not been heard of for too long.
var ErrEntryLost = errors.New("the node the request came in by has fallen silent")

var (
	errCrowd  = errors.New("too many asks")
	errEnding = errors.New("the desk is closed")
	errOver   = errors.New("the claim is over")
)

// book is what this node has promised to the others. A claim of an entry waits in a line, then holds a granted seat
// until its forward comes, and is over once it is used, lapsed, returned, given up or lost with its entry. Whichever
// comes first ends it, and that one alone has its place or its seat: so no seat is lost or given back twice.
//
// It does no I/O and knows no clock; the Desk's lock guards it. What its methods hand out as freed is nobody's any more
// and to be given up by the caller, outside the lock.
type book[S Seat] struct {
	entries map[string]*entry[S]
	granted map[string]*claim[S] // by id of the lease
	claims  int
	last    uint64 // number of the claim that came last
	closed  bool
}

// entry is a node that has something here: none is kept that has nothing.
type entry[S Seat] struct {
	id       string
	heard    time.Time
	claims   map[*claim[S]]struct{}
	forwards map[*bound]struct{}
}

// claim is one ask, from its coming to its end.
type claim[S Seat] struct {
	n     uint64 // in the order of coming
	by    *entry[S]
	model string
	end   context.CancelCauseFunc // ends the handler's wait
	place Place[S]                // nil = it does not stand in a line
	lease string                  // "" = not granted
	seat  S
	since time.Time // of the grant
	over  bool
}

// bound is a forward that runs.
type bound struct{ end context.CancelCauseFunc }

// freed is what nobody has a right to any more.
type freed[S Seat] struct {
	seats  []S
	places []Place[S]
	ends   []context.CancelCauseFunc
}

func (f freed[S]) giveUp(why error) {
	for _, p := range f.places {
		p.Leave()
	}
	for _, s := range f.seats {
		s.Release()
	}
	for _, end := range f.ends {
		end(why)
	}
}

func newBook[S Seat]() *book[S] {
	return &book[S]{entries: map[string]*entry[S]{}, granted: map[string]*claim[S]{}}
}

// entry finds or makes the record of one that has just been heard.
func (b *book[S]) entry(id string, now time.Time) *entry[S] {
	e := b.entries[id]
	if e == nil {
		e = &entry[S]{id: id, claims: map[*claim[S]]struct{}{}, forwards: map[*bound]struct{}{}}
		b.entries[id] = e
	}
	e.heard = now
	return e
}

func (b *book[S]) forgetIdle(e *entry[S]) {
	if len(e.claims) == 0 && len(e.forwards) == 0 && b.entries[e.id] == e {
		delete(b.entries, e.id)
	}
}

// enter opens a claim. Errors: errCrowd, errEnding.
func (b *book[S]) enter(id, model string, end context.CancelCauseFunc, now time.Time) (*claim[S], error) {
	old := b.entries[id]
	switch {
	case b.closed:
		return nil, errEnding
	case b.claims >= maxClaims, old == nil && len(b.entries) >= maxEntries, old != nil && len(old.claims) >= maxClaimsEach:
		return nil, errCrowd
	}
	e := b.entry(id, now)
	b.last++
	c := &claim[S]{n: b.last, by: e, model: model, end: end}
	e.claims[c] = struct{}{}
	b.claims++
	return c, nil
}

// stand gives a claim its place in a line. False: the claim is over, and the place the caller's to leave.
func (b *book[S]) stand(c *claim[S], p Place[S]) bool {
	if c.over {
		return false
	}
	c.place = p
	return true
}

// collect makes of a place that is done a granted seat. Errors: the line's refusal, and errOver for a claim that has
// ended; the claim is over then.
func (b *book[S]) collect(c *claim[S], lease string, now time.Time) (backend string, err error) {
	if c.over {
		return "", errOver
	}
	seat, err := c.place.Collect()
	c.place = nil
	if err != nil {
		b.close(c)
		return "", err
	}
	c.seat, c.lease, c.since = seat, lease, now
	b.granted[lease] = c
	return seat.Backend(), nil
}

// drop ends a claim whatever its state; one that is over already stays as it is.
func (b *book[S]) drop(c *claim[S]) (f freed[S]) {
	if c.over {
		return f
	}
	if c.place != nil {
		f.places = append(f.places, c.place)
	}
	if c.lease != "" {
		f.seats = append(f.seats, c.seat)
	}
	b.close(c)
	return f
}

// close takes a claim out of the book. Its place or seat is for the caller to see to.
func (b *book[S]) close(c *claim[S]) {
	var none S
	delete(c.by.claims, c)
	delete(b.granted, c.lease)
	b.claims--
	c.over, c.place, c.seat = true, nil, none
	b.forgetIdle(c.by)
}

// redeem hands the seat of a lease to its forward. False: there is no such lease of that entry for that model, and
// nothing has changed.
func (b *book[S]) redeem(id, lease, model string, now time.Time) (seat S, ok bool) {
	c := b.find(id, lease, now)
	if c == nil || c.model != model {
		return seat, false
	}
	seat = c.seat
	b.close(c)
	return seat, true
}

// giveBack ends a granted lease that its entry does not want.
func (b *book[S]) giveBack(id, lease string, now time.Time) (f freed[S], ok bool) {
	c := b.find(id, lease, now)
	if c == nil {
		return f, false
	}
	return b.drop(c), true
}

// find gives the claim of an entry's lease, nil if there is none. The entry has been heard.
func (b *book[S]) find(id, lease string, now time.Time) *claim[S] {
	if e := b.entries[id]; e != nil {
		e.heard = now
	}
	c := b.granted[lease]
	if c == nil || c.by.id != id {
		return nil
	}
	return c
}

// bind keeps a forward that runs, so that it ends with its entry.
func (b *book[S]) bind(id string, end context.CancelCauseFunc, now time.Time) (unbind func()) {
	e, f := b.entry(id, now), &bound{end}
	e.forwards[f] = struct{}{}
	return func() {
		delete(e.forwards, f)
		b.forgetIdle(e)
	}
}

// older puts claims into the order in which they came, so that what is freed at one time does not go to the next by chance.
func older[S Seat](c, d *claim[S]) int { return cmp.Compare(c.n, d.n) }

// lapse ends the grants whose forward has not come.
func (b *book[S]) lapse(now time.Time) (f freed[S]) {
	for _, c := range slices.SortedFunc(maps.Values(b.granted), older) {
		if now.Sub(c.since) >= lapseAfter {
			f.add(b.drop(c))
		}
	}
	return f
}

// lose ends all that an entry has here.
func (b *book[S]) lose(e *entry[S]) (f freed[S]) {
	for _, c := range slices.SortedFunc(maps.Keys(e.claims), older) {
		f.ends = append(f.ends, c.end)
		f.add(b.drop(c))
	}
	for r := range e.forwards {
		f.ends = append(f.ends, r.end)
	}
	clear(e.forwards)
	b.forgetIdle(e)
	return f
}

// silent lists the entries that have not been heard for too long. heard tells when another source last heard one.
func (b *book[S]) silent(now time.Time, heard func(id string) time.Time) (lost []*entry[S]) {
	for _, e := range b.entries {
		if now.Sub(e.heard) < lostAfter {
			continue
		}
		if at := heard(e.id); at.After(e.heard) {
			e.heard = at
		}
		if now.Sub(e.heard) >= lostAfter {
			lost = append(lost, e)
		}
	}
	slices.SortFunc(lost, func(a, b *entry[S]) int { return strings.Compare(a.id, b.id) })
	return lost
}

// end closes the book: no claim is left, and none is opened. Forwards that run go on.
func (b *book[S]) end() (f freed[S]) {
	b.closed = true
	for _, e := range b.entries {
		for c := range e.claims {
			f.ends = append(f.ends, c.end)
			f.add(b.drop(c))
		}
	}
	return f
}

func (f *freed[S]) add(more freed[S]) {
	f.seats = append(f.seats, more.seats...)
	f.places = append(f.places, more.places...)
	f.ends = append(f.ends, more.ends...)
}
