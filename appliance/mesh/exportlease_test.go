package mesh

import (
	"context"
	"io"
	"time"
)

// Bounds and times of leases.
const (
	MaxClaims     = maxClaims
	MaxClaimsEach = maxClaimsEach
	LapseAfter    = lapseAfter
	LostAfter     = lostAfter
)

// ErrOver is what a claim that has ended gives.
var ErrOver = errOver

// ReadStanding reads a member's answer to an ask that waits.
func ReadStanding(ctx context.Context, body io.Reader) (Grant, error) {
	return readStanding(ctx, body, func() {}, nil)
}

// Open counts what a Desk has open: entries, and claims.
func (d *Desk[S]) Open() (entries, claims int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.book.entries), d.book.claims
}

// Book and Claim are those of a Desk, for who drives them step by step.
type (
	Book[S Seat]  = book[S]
	Claim[S Seat] = claim[S]
	Freed[S Seat] = freed[S]
)

// NewBook makes an empty book.
func NewBook[S Seat]() *Book[S] { return newBook[S]() }

// Enter is book.enter.
func (b *book[S]) Enter(id, model string, end context.CancelCauseFunc, now time.Time) (*claim[S], error) {
	return b.enter(id, model, end, now)
}

// Stand is book.stand.
func (b *book[S]) Stand(c *claim[S], p Place[S]) bool { return b.stand(c, p) }

// Collect is book.collect.
func (b *book[S]) Collect(c *claim[S], lease string, now time.Time) (string, error) {
	return b.collect(c, lease, now)
}

// Drop is book.drop.
func (b *book[S]) Drop(c *claim[S]) freed[S] { return b.drop(c) }

// Redeem is book.redeem.
func (b *book[S]) Redeem(id, lease, model string, now time.Time) (S, bool) {
	return b.redeem(id, lease, model, now)
}

// GiveBack is book.giveBack.
func (b *book[S]) GiveBack(id, lease string, now time.Time) (freed[S], bool) {
	return b.giveBack(id, lease, now)
}

// Bind is book.bind.
func (b *book[S]) Bind(id string, end context.CancelCauseFunc, now time.Time) func() {
	return b.bind(id, end, now)
}

// Sweep is what a Desk does with its book now and again.
func (b *book[S]) Sweep(now time.Time, heard func(string) time.Time) (lapsed, lost freed[S]) {
	lapsed = b.lapse(now)
	for _, e := range b.silent(now, heard) {
		lost.add(b.lose(e))
	}
	return lapsed, lost
}

// GiveUp is freed.giveUp.
func (f freed[S]) GiveUp(why error) { f.giveUp(why) }

// Seats counts what was freed.
func (f freed[S]) Seats() int { return len(f.seats) }

// Holds tells what the book has: the seats granted and the places that wait, in all and of one entry, and the entries.
func (b *book[S]) Holds() (seats []S, places []Place[S], entries int) {
	claims := 0
	for _, e := range b.entries {
		claims += len(e.claims)
		for c := range e.claims {
			switch {
			case c.lease != "":
				seats = append(seats, c.seat)
			case c.place != nil:
				places = append(places, c.place)
			}
		}
	}
	if claims != b.claims || len(seats) != len(b.granted) {
		panic("the book's own counts differ")
	}
	return seats, places, len(b.entries)
}
