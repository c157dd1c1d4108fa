package gateway

import (
	"context"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/appliance/route"
	"viiwork/appliance/status"
	"viiwork/engine"
)

// search is the state of one request's look for a seat: whom it has asked.
type search struct {
	k     *call
	p     *place
	line  asking // from a place in a line; nil = it stands in none
	try   asking // at once; nil = no seat was found
	again bool   // it had a place before
}

// step asks for the seat that was found, or stands in the line where the wait is shortest.
func (s *search) step(ctx context.Context) (first bool, err error) {
	k, l := s.k, s.k.g.lineup
	o, d, first := l.take(s.p)
	plan := d.plan
	if o != nil || s.line == nil && !plan.None() {
		k.decided(d)
	}
	switch {
	case o != nil && o.ticket != nil:
		s.try = &askingHere{k: k, ticket: o.ticket, decision: d, waited: s.line != nil}
	case o != nil:
		s.try = k.askThere(ctx, *o, false)
	}
	if s.try != nil || s.line != nil {
		return first, nil
	}
	if plan.None() {
		return first, errNobody
	}
	if err := l.wait(s.p, s.again); err != nil {
		return first, err
	}
	if plan.Node == "" && !plan.Local { // no line takes it, or it is to wait here for a slot anywhere
		if k.linesFull() {
			return first, engine.ErrLineFull
		}
		s.showPlace()
		return first, nil
	}
	s.stand(ctx, d)
	return first, nil
}

// stand takes a place in the line of the plan's node.
func (s *search) stand(ctx context.Context, d decision) {
	k, l, plan := s.k, s.k.g.lineup, d.plan
	if plan.Local {
		t, err := k.g.cfg.Engine.Queue(k.waits(plan))
		if err != nil {
			s.learn(mesh.Member{}, err)
			return
		}
		s.line = &askingHere{k: k, ticket: t, decision: d, waited: true}
	} else {
		n, ok := k.g.member(plan.Node)
		if !ok || n.Report == nil {
			return // it has gone this moment: the next look knows
		}
		l.mu.Lock()
		asked := l.ahead.add(n, k.model, true)
		l.mu.Unlock()
		s.line = k.askThere(ctx, offer{member: n.Member, backend: plan.Backend, reason: plan.Reason, asked: asked}, true)
	}
	l.standAt(s.p, plan)
	s.showPlace()
}

// refused takes note of an asking that came to nothing.
func (s *search) refused(a *asking, err error) {
	l := s.k.g.lineup
	var asked *departure
	var m mesh.Member
	if there, ok := (*a).(*askingThere); ok {
		asked, m = there.asked, there.member
	}
	if *a == s.line {
		l.stood(s.p)
		l.arrived(asked)
	} else {
		l.tried(s.p, asked)
	}
	(*a).leave()
	*a = nil
	s.learn(m, err)
}

// leave gives up every place and seat but the one that was collected.
func (s *search) leave() {
	l := s.k.g.lineup
	for _, a := range []asking{s.line, s.try} {
		if a == nil {
			continue
		}
		a.leave()
		if there, ok := a.(*askingThere); ok && !there.taken { // else the forward ends it
			l.arrived(there.asked)
		}
	}
	l.leave(s.p)
	s.k.row.update(func(r *status.Request) { r.WaitsAt, r.Place, r.ExpectedWaitMS = "", nil, nil })
}

// late is the seat that was granted in the very moment in which the patience ended: who has waited so long for it and is still
// there gets it.
func (s *search) late(ctx context.Context) (seat, error) {
	if s.k.ctx.Err() != nil {
		return seat{}, context.Cause(ctx)
	}
	for _, a := range []asking{s.try, s.line} {
		select {
		case <-over(a):
			if got, err := a.collect(); err == nil {
				got.waited = got.waited || s.p.waits
				return got, nil
			}
		default:
		}
	}
	return seat{}, context.Cause(ctx)
}

// showPlace puts into the request's row where it waits.
func (s *search) showPlace() {
	node, ahead, expect := s.k.g.cfg.Node, -1, time.Duration(-1)
	switch line := s.line.(type) {
	case nil:
		if s.k.g.cfg.Policy != route.Classic {
			return // it stands in no line for a moment only
		}
		ahead = s.k.g.lineup.rank(s.p)
	case *askingThere:
		node = line.member.Name
	}
	if s.line != nil {
		ahead, expect = s.line.place()
		s.k.g.lineup.before(s.p, ahead)
	}
	s.k.row.update(func(r *status.Request) {
		r.WaitsAt, r.Place, r.ExpectedWaitMS = node, nil, nil
		if ahead >= 0 {
			n := ahead + 1
			r.Place = &n
		}
		if expect >= 0 {
			ms := float64(expect.Milliseconds())
			r.ExpectedWaitMS = &ms
		}
	})
}

// over is closed once the asking has ended; nil has no end.
func over(a asking) <-chan struct{} {
	if a == nil {
		return nil
	}
	return a.done()
}
