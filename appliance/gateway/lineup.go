package gateway

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/appliance/route"
	"viiwork/engine"
)

// lineup is all requests that look for a slot at this entry, by model and in the order in which they came. Most pass
// without a stop; those that find nothing free stand in one node's line besides, and stay here to be planned anew at each
// change, the oldest first: nobody takes a slot that an older one would take.
type lineup struct {
	max int // places of one model that may wait

	mu     sync.Mutex // held over looking for a seat and taking it, which must be one act
	models map[string][]*place
	rests  map[string]time.Time // until when nobody looks again for those of a model who have been looked for
	last   uint64               // ticket
	ahead  ahead
}

// place is one request in a lineup. Its fields are guarded by the lineup's lock, and so is what the call knows of nodes
// that have refused it while it has a place.
type place struct {
	call      *call
	ticket    uint64
	waits     bool          // has found nothing free: counts for the bound
	stands    bool          // in a line
	standsAt  string        // id of the node whose line that is
	standsFor string        // the only backend it accepts there, "" = any
	before    int           // who stands before it there
	decision                // as of the last look
	planned   bool          // there was one since it came
	offer     *offer        // a seat found for it
	tries     bool          // to get a seat that was found; until then it is looked for no further
	news      chan struct{} // holds one: there is an offer, nobody is left to wait for, or it has become the first
}

// offer is a free seat that was seen: a ticket of this node's engine, or a member that probably has one.
type offer struct {
	ticket  *engine.Ticket
	member  mesh.Member
	backend string // the one it should be, "" = any
	reason  route.Reason
	asked   *departure // counts at the member until its report can know of it; nil = a ticket
}

func newLineup(max int) *lineup {
	return &lineup{max: max, models: map[string][]*place{}, rests: map[string]time.Time{}}
}

// join takes the last place; with the ticket of an earlier place, that one. 0 = a new ticket.
func (l *lineup) join(k *call, ticket uint64) *place {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ticket == 0 {
		l.last++
		ticket = l.last
	}
	p := &place{call: k, ticket: ticket, news: make(chan struct{}, 1)}
	all := l.models[k.model]
	at, _ := slices.BinarySearchFunc(all, ticket, func(p *place, t uint64) int { return cmp.Compare(p.ticket, t) })
	l.models[k.model] = slices.Insert(all, at, p)
	return p
}

// wait makes p one of those that wait. A ticket that was called before is not sent away for those who came later: who
// was promised a slot and did not get it keeps its place.
func (l *lineup) wait(p *place, again bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.waits {
		return nil
	}
	waiting := 0
	for _, other := range l.models[p.call.model] {
		if other.waits {
			waiting++
		}
	}
	if l.max < 0 || waiting >= l.max && !again {
		return engine.ErrLineFull
	}
	p.waits = true
	return nil
}

// rank is how many wait before p for a slot anywhere.
func (l *lineup) rank(p *place) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, other := range l.models[p.call.model] {
		if other == p {
			break
		}
		if other.waits {
			n++
		}
	}
	return n
}

// standAt says in whose line p stands.
func (l *lineup) standAt(p *place, plan route.Plan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.stands, p.standsAt, p.standsFor, p.before = true, plan.Node, plan.Backend, 0
}

// before says who is before p there, < 0 = unknown.
func (l *lineup) before(p *place, others int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.before = max(0, others)
}

// stood says that p stands in no line any more.
func (l *lineup) stood(p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.stands = false
}

// leave gives up a place, with a seat that was found for it and not tried.
func (l *lineup) leave(p *place) {
	l.mu.Lock()
	all := l.models[p.call.model]
	at := slices.Index(all, p)
	if all = slices.Delete(all, at, at+1); len(all) == 0 {
		delete(l.models, p.call.model)
		delete(l.rests, p.call.model)
	} else {
		l.models[p.call.model] = all
		if at == 0 {
			all[0].tell()
		}
	}
	o := p.offer
	p.offer = nil
	if o != nil {
		l.ahead.remove(o.asked)
	}
	l.mu.Unlock()
	if o != nil && o.ticket != nil {
		o.ticket.Leave()
	}
}

// take gives the caller what was found for it, nil if nothing was; no more is looked for until it has tried. first says
// that nobody is before it.
func (l *lineup) take(p *place) (o *offer, d decision, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o, p.offer = p.offer, nil
	p.tries = p.tries || o != nil
	return o, p.decision, l.models[p.call.model][0] == p
}

// decided is what was planned for p last.
func (l *lineup) decided(p *place) decision {
	l.mu.Lock()
	defer l.mu.Unlock()
	return p.decision
}

// tried says that an offer came to nothing.
func (l *lineup) tried(p *place, asked *departure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.tries = false
	l.ahead.remove(asked)
}

// arrived ends a departure.
func (l *lineup) arrived(d *departure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead.remove(d)
}

// idle says that nothing is looked for on behalf of p at the moment: it tries what was found, or has left.
func (p *place) idle() bool { return p.offer != nil || p.tries || p.call.ctx.Err() != nil }

func (p *place) tell() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}
