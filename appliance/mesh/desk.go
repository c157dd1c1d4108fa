package mesh

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// sweepEvery is how often the desk looks for what has lapsed and who is lost.
const sweepEvery = 250 * time.Millisecond

// Seat is what an owner lends.
type Seat interface {
	Backend() string
	Release()
}

// Place is a place in a line, or the seat it has become. None of its methods waits.
type Place[S Seat] interface {
	Done() <-chan struct{} // closed once there is a seat or a refusal
	Ahead() int            // who stands before it; 0 = it is the next
	Collect() (S, error)   // after Done; the seat is the caller's
	Leave()                // gives up the place, or the seat nobody has collected
}

// DeskConfig is what a Desk is made of. None of its funcs may wait, or call the Desk.
type DeskConfig[S Seat] struct {
	// Join takes a free seat at once or the last place in the line; with WaitMS 0 it refuses where nothing is free.
	Join func(Ask) (Place[S], error)
	// Explain says what an error of Join, or of a place's Collect, means to the asking node.
	Explain func(error) *SeatRefused
	// Expect is how long somebody with that many before him will wait; < 0 = unknown.
	Expect   func(model string, ahead int) time.Duration
	Verifier *Verifier
	Table    *Table       // tells who was heard, and the time
	Log      *slog.Logger // nil = silent
}

// Desk is where members ask for this node's seats. An ask waits in the line like any other; the seat granted to it waits
// for its forward, which redeems it.
type Desk[S Seat] struct {
	cfg DeskConfig[S]
	ran atomic.Bool

	mu   sync.Mutex
	book *book[S]
}

// NewDesk makes a Desk. It grants from the first moment, and takes back what is not used once it runs.
func NewDesk[S Seat](cfg DeskConfig[S]) *Desk[S] {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Desk[S]{cfg: cfg, book: newBook[S]()}
}

// Run takes back the seats whose forward does not come, and all that an entry has here which is not heard for 10 s: by
// its requests or by its capacity. Time in which this process stood still does not count. When ctx ends, the desk is
// closed; forwards that run go on. It may be called once.
func (d *Desk[S]) Run(ctx context.Context) error {
	if d.ran.Swap(true) {
		return errors.New("lending seats: it has run already")
	}
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		d.sweep()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	d.mu.Lock()
	f := d.book.end()
	d.mu.Unlock()
	f.giveUp(errEnding)
	return nil
}

func (d *Desk[S]) now() time.Time { return d.cfg.Table.clock.now() }

func (d *Desk[S]) sweep() {
	now := d.now()
	d.mu.Lock()
	lapsed := d.book.lapse(now)
	silent := d.book.silent(now, d.cfg.Table.heard)
	lost := make([]freed[S], 0, len(silent))
	for _, e := range silent {
		lost = append(lost, d.book.lose(e))
	}
	d.mu.Unlock()
	lapsed.giveUp(errOver)
	if n := len(lapsed.seats); n > 0 {
		d.cfg.Log.Debug("seats were granted and not used", "seats", n)
	}
	for i, e := range silent {
		lost[i].giveUp(ErrEntryLost)
		d.cfg.Log.Warn("a node has fallen silent: what it waited for and ran here is ended", "id", e.id, "ended", len(lost[i].ends))
	}
}

// Redeem gives the seat of a lease to the forward of entry whose signed headers have come. False: entry has no such
// lease for the model, since it has lapsed, was used or is somebody else's; the forward is then one without a lease.
func (d *Desk[S]) Redeem(entry, lease, model string) (S, bool) {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.book.redeem(entry, lease, model, now)
}

// Bind ends a forward of entry with ErrEntryLost once entry is lost, until unbind is called.
func (d *Desk[S]) Bind(entry string, end context.CancelCauseFunc) (unbind func()) {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	loosen := d.book.bind(entry, end, now)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		loosen()
	}
}

func (d *Desk[S]) enter(id, model string, end context.CancelCauseFunc) (*claim[S], error) {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.book.enter(id, model, end, now)
}

// join gives the claim a place. The error is Join's, or errOver.
func (d *Desk[S]) join(c *claim[S], a Ask) (Place[S], error) {
	place, err := d.cfg.Join(a)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	stands := d.book.stand(c, place)
	d.mu.Unlock()
	if !stands {
		place.Leave()
		return nil, errOver
	}
	return place, nil
}

func (d *Desk[S]) collect(c *claim[S]) (Grant, error) {
	var id [leaseSize]byte
	rand.Read(id[:]) // never fails
	g := Grant{ID: encoding.EncodeToString(id[:])}
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	g.Backend, err = d.book.collect(c, g.ID, now)
	return g, err
}

func (d *Desk[S]) drop(c *claim[S]) {
	d.mu.Lock()
	f := d.book.drop(c)
	d.mu.Unlock()
	f.giveUp(errOver)
}

func (d *Desk[S]) giveBack(entry, lease string) bool {
	now := d.now()
	d.mu.Lock()
	f, ok := d.book.giveBack(entry, lease, now)
	d.mu.Unlock()
	f.giveUp(errOver)
	return ok
}
