package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"viiwork/appliance/route"
	"viiwork/engine"
)

// priceEvery is how often who waits is planned anew without a word from anybody, for what nobody tells: that a member has
// become stale, or that what was on its way to it is old enough to be in its report.
const priceEvery = 500 * time.Millisecond

var errNobody = errors.New("no node can take the request now or soon")

// runAcross finds a node and lets it answer. One that cannot take the request, before its first answer byte, is passed
// over for the next.
func (k *call) runAcross() error {
	if err := k.pinFault(); err != nil {
		return err
	}
	k.recognise()
	k.g.rates.thought(k.model, k.found.Since)
	for {
		s, err := k.seat()
		if err != nil {
			return k.seatless(err)
		}
		again := false
		if s.lease != nil {
			k.granted(s.lease, because(s.reason, s.waited, s.lease.Backend(), k.atHome(s.home)), k.waited)
			k.triedHere = append(k.triedHere, s.lease.Backend())
			again, err = k.attempt(s.lease)
		} else {
			again, err = k.forward(s)
		}
		if !again || k.ctx.Err() != nil {
			return err
		}
		k.last = err
	}
}

// seat looks for a seat until there is one. While nothing is free it stands in the line of one node, and gives that
// place up only for a seat that it has got elsewhere.
func (k *call) seat() (seat, error) {
	began := time.Now()
	k.until = began.Add(max(0, k.patience()-k.waited))
	ctx, cancel := context.WithDeadlineCause(k.ctx, k.until, errQueueTimeout)
	defer cancel()
	defer func() { k.waited += time.Since(began) }()
	s := search{k: k, again: k.ticket != 0}
	own, members := k.g.changed.wait(), k.g.membersChanged() // before any look: what comes after it is not missed
	s.p = k.g.lineup.join(k, k.ticket)
	k.ticket = s.p.ticket
	defer s.leave()
	tick := time.NewTicker(priceEvery)
	defer tick.Stop()
	gap := k.g.lookFor(ctx, s.p)
	for look := false; ; own, members = k.g.changed.wait(), k.g.membersChanged() {
		if look {
			gap = k.g.look(k.model)
		}
		first, err := s.step(ctx)
		if err != nil {
			return seat{}, err
		}
		if !first {
			own, members = nil, nil
		}
		look = first
		select {
		case <-over(s.try):
			got, err := s.try.collect()
			if err == nil || ctx.Err() != nil {
				got.waited = got.waited || s.p.waits
				return got, orCause(ctx, err)
			}
			s.refused(&s.try, err)
			look = true
		case <-over(s.line):
			got, err := s.line.collect()
			if err == nil || ctx.Err() != nil {
				return got, orCause(ctx, err)
			}
			s.refused(&s.line, err)
			look = true
		case <-s.p.news:
		case <-own:
			pause(ctx, gap)
		case <-members:
			pause(ctx, gap)
		case <-tick.C:
			s.showPlace()
			k.row.explain(k.g.lineup.decided(s.p))
		case <-ctx.Done():
			return s.late(ctx)
		}
	}
}

// patience is how long the request waits in lines altogether.
func (k *call) patience() time.Duration {
	wait := k.g.cfg.QueueTimeout
	if !k.home.known || k.g.cfg.WarmWait <= wait || k.g.cfg.Policy == route.Classic { // which waits for any slot, not for the home's
		return wait
	}
	n, ok := k.hereFor(k.model)
	if k.home.node != k.g.id() {
		n, ok = route.Node{}, false
		if m, known := k.g.member(k.home.node); known {
			n, _, ok = there(m, k.model)
		}
	}
	if ok && n.Serves() {
		return k.g.cfg.WarmWait
	}
	return wait
}

// wish is what the request wants of this node's engine: a slot of that backend rather than of another, "" = of any.
func (k *call) wish(backend string, now bool) engine.Request {
	r := engine.Request{Model: k.model, Prefer: backend, Session: k.session, NoWait: now}
	if len(k.triedHere) > 0 {
		r.Backends = append([]string{}, k.others(k.triedHere)...) // none left is not any
	}
	return r
}

// waits is what it wants from a place in the line: where the plan names a backend, none but that.
func (k *call) waits(plan route.Plan) engine.Request {
	r := k.wish(plan.Backend, false)
	if plan.Backend != "" {
		r.Backends = []string{plan.Backend}
	}
	return r
}

// orCause prefers the reason ctx has ended for to what came of it.
func orCause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// pause reports whether ctx still holds after d.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// pinFault says why a pinned request need not be waited for.
func (k *call) pinFault() error {
	if k.host == "" {
		return nil
	}
	if m, ok := k.g.member(k.host); ok && m.Report != nil && !slices.Contains(m.Known, k.model) {
		return notAt(m.Member.Name, k.model)
	}
	return nil
}

// notAt says that a node does not have a model that others have.
func notAt(node, model string) *Error {
	return &Error{Status: http.StatusNotFound, Code: "model_not_found", Param: "model",
		Message: fmt.Sprintf("node %q does not serve model %q; GET /v1/models lists which nodes do, under viiwork.hosts", node, shown(model))}
}

// seatless says why the request got no seat.
func (k *call) seatless(err error) error {
	if !errors.Is(err, errNobody) {
		return k.notServed(err)
	}
	_, here := k.g.local(k.model)
	switch {
	case k.last != nil:
		return k.last
	case k.pinned && !here && k.g.elsewhere(k.model):
		return notAt(k.g.cfg.Node, k.model)
	case k.host != "":
		return &Error{Status: http.StatusServiceUnavailable, Code: "host_not_ready", RetryAfter: 5 * time.Second, Param: "host",
			Message: "the node named in \"host\" is draining, loading the model or not answering; try again shortly or without \"host\""}
	case here:
		return k.notReady()
	case !k.g.elsewhere(k.model):
		return k.g.unknownModel(k.model)
	}
	return &Error{Status: http.StatusServiceUnavailable, Code: "model_not_ready", RetryAfter: 5 * time.Second,
		Message: "no node that has the model is ready: they are loading it, draining or not answering; try again shortly"}
}
