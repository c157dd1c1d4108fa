package gateway

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/appliance/route"
	"viiwork/engine"
)

// returnFor is how long a member is told that a seat is not needed; it lapses by itself soon after.
const returnFor = 2 * time.Second

var errMoved = errors.New("found a seat elsewhere")

// seat is where a request is to run: a lease of this node's engine, or one that a member has granted.
type seat struct {
	lease  *engine.Lease
	member mesh.Member
	grant  mesh.Grant
	reason route.Reason
	home   homeAt     // of the conversation when it was planned
	waited bool       // stood in a line
	asked  *departure // counts at the member until its report can know of it
}

// asking is a seat that was asked of one node, at once or from a place in its line.
type asking interface {
	done() <-chan struct{} // closed once there is a seat or a refusal
	collect() (seat, error)
	leave()                      // gives up the place, or the seat that nobody has collected
	place() (int, time.Duration) // how many stand before it, and the expected wait; -1 = unknown
}

// askingHere is a ticket of this node's own engine.
type askingHere struct {
	k      *call
	ticket *engine.Ticket
	decision
	waited bool
}

func (a *askingHere) done() <-chan struct{} { return a.ticket.Done() }
func (a *askingHere) leave()                { a.ticket.Leave() }

func (a *askingHere) collect() (seat, error) {
	lease, err := a.ticket.Collect()
	return seat{lease: lease, reason: a.plan.Reason, home: a.home, waited: a.waited}, err
}

func (a *askingHere) place() (int, time.Duration) {
	ahead := a.ticket.Ahead()
	m, ok := a.k.g.local(a.k.model)
	if !ok {
		return ahead, -1
	}
	return ahead, m.ExpectedWait(ahead)
}

// askingThere is a question to a member. Its goroutine ends when the member has answered or is silent, or when leave is
// called, as the request's handler does with all that it has asked. What leave has to give back takes returnFor at most,
// and nobody waits for it.
type askingThere struct {
	offer
	waits  bool
	ahead  atomic.Int64
	expect atomic.Int64 // nanoseconds, -1 = unknown
	client *mesh.Client
	cancel context.CancelCauseFunc
	over   chan struct{}
	grant  mesh.Grant // set before over closes, or err is
	err    error
	taken  bool // of the handler's goroutine
}

// askThere asks a member for a seat, now or from a place in its line for as long as ctx has time.
func (k *call) askThere(ctx context.Context, o offer, waits bool) *askingThere {
	own := k.g.joined.Load() // not nil: there was a member to choose
	ask := mesh.Ask{Model: k.model, Session: k.session}
	ask.Prefer = o.backend
	if waits && o.backend != "" {
		ask.Backends = []string{o.backend}
	}
	if deadline, ok := ctx.Deadline(); ok && waits {
		ask.WaitMS = max(1, time.Until(deadline).Milliseconds())
	}
	a := &askingThere{offer: o, waits: waits, client: own.Client, over: make(chan struct{})}
	a.ahead.Store(-1)
	a.expect.Store(-1)
	ctx, a.cancel = context.WithCancelCause(ctx)
	go func() {
		defer close(a.over)
		// The client hears when this one answer stops; the guard knows whether the whole member is silent, and puts it
		// into quarantine then.
		guarded, heard := own.Table.Guard(ctx, o.member.ID)
		defer heard()
		a.grant, a.err = own.Client.AskSeat(guarded, o.member, ask, func(ahead int, expect time.Duration) {
			a.ahead.Store(int64(ahead))
			a.expect.Store(int64(expect))
		})
	}()
	return a
}

func (a *askingThere) done() <-chan struct{} { return a.over }

func (a *askingThere) collect() (seat, error) {
	if a.err != nil {
		return seat{}, a.err
	}
	a.taken = true
	return seat{member: a.member, grant: a.grant, reason: a.reason, waited: a.waits, asked: a.asked}, nil
}

func (a *askingThere) leave() {
	if a.taken {
		return
	}
	a.cancel(errMoved)
	go func() {
		<-a.over
		if a.err == nil {
			giveBack(a.client, a.member, a.grant)
		}
	}()
}

func (a *askingThere) place() (int, time.Duration) {
	return int(a.ahead.Load()), time.Duration(a.expect.Load())
}

// giveBack tells a member that a seat it has granted is not needed.
func giveBack(c *mesh.Client, m mesh.Member, g mesh.Grant) {
	ctx, cancel := context.WithTimeout(context.Background(), returnFor)
	defer cancel()
	_ = c.ReturnSeat(ctx, m, g.ID) // if it is lost the seat lapses
}
