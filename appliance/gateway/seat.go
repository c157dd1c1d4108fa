package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/appliance/route"
	"viiwork/engine"
)

// lookEvery is how often the first of a line looks without a word from a member, for what nobody tells: that one has
// become stale, or that a forward to it is old enough to be in its report.
const lookEvery = 50 * time.Millisecond

var (
	errNobody = errors.New("no node can take the request now or soon")
	errMoved  = errors.New("found a seat elsewhere")
)

// seat is where a request is to run: a lease of this node's engine, or a place at a member.
type seat struct {
	lease   *engine.Lease
	member  mesh.Member
	reason  route.Reason
	waited  bool   // stood in a line
	arrived func() // of a member: to be called when the forward is over
}

// runAcross finds a node and lets it answer. One that cannot take the request, before its first answer byte, is passed
// over for the next.
func (k *call) runAcross() error {
	if err := k.pinFault(); err != nil {
		return err
	}
	k.homeNode = k.g.homeNodes.find(k.model, k.session)
	var last error
	for {
		s, err := k.seat()
		if err != nil {
			return k.seatless(err, last)
		}
		again := false
		if s.lease != nil {
			k.granted(s.lease, k.g.homes.find(k.model, k.session), engine.Timing{Queued: k.waited, Waited: s.waited})
			k.triedHere = append(k.triedHere, s.lease.Backend())
			again, err = k.attempt(s.lease)
		} else {
			again, err = k.forward(s)
		}
		if !again || k.ctx.Err() != nil {
			return err
		}
		last = err
	}
}

// seat waits in the entry's line, and first of it for a seat anywhere.
func (k *call) seat() (seat, error) {
	began := time.Now()
	ctx, cancel := context.WithDeadlineCause(k.ctx, began.Add(max(0, k.patience()-k.waited)), errQueueTimeout)
	defer cancel()
	defer func() { k.waited += time.Since(began) }()
	again := len(k.tried) > 0 || len(k.triedHere) > 0
	p, err := k.g.queues.join(lineKey{k.model, k.host, again}, k.ticket)
	if err != nil {
		return seat{}, err
	}
	k.ticket = p.ticket
	defer k.g.queues.leave(p)
	if err := p.await(ctx); err != nil {
		return seat{}, err
	}
	return k.look(ctx, p)
}

// patience is how long the request waits in lines altogether.
func (k *call) patience() time.Duration {
	wait := k.g.cfg.QueueTimeout
	if k.homeNode == "" || k.g.cfg.WarmWait <= wait {
		return wait
	}
	n, ok := k.here()
	if k.homeNode != k.g.id() {
		n, ok = route.Node{}, false
		for _, m := range k.g.members() {
			if m.Member.ID == k.homeNode {
				n, ok = there(m, k.model)
			}
		}
	}
	if ok && n.Serves() {
		return k.g.cfg.WarmWait
	}
	return wait
}

// look is for the first of a line: it takes the first seat that there is. While there is none it stands in the engine's
// own line, too, and gives that place up for a member that frees earlier.
func (k *call) look(ctx context.Context, p *place) (seat, error) {
	var here hereWait
	defer here.leave()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for waited := false; ; waited = true {
		changed := k.g.membersChanged()
		plan, to, arrived := k.pick()
		switch {
		case plan == (route.Plan{}):
			return seat{}, errNobody
		case arrived != nil:
			if lease := here.take(); lease != nil {
				arrived()
				return seat{lease: lease, waited: waited}, nil
			}
			return seat{member: to, reason: plan.Reason, waited: waited, arrived: arrived}, nil
		case plan.Local && !plan.Wait && here.got == nil:
			if lease, err := k.g.cfg.Engine.Acquire(k.ctx, k.wish(true)); err == nil {
				return seat{lease: lease, waited: waited}, nil
			} // somebody was quicker
		}
		if k.g.cfg.QueueMax < 0 {
			return seat{}, engine.ErrLineFull
		}
		k.g.queues.block(p)
		if n, ok := k.here(); ok && n.Serves() && k.host == "" {
			here.join(ctx, k.g.cfg.Engine, k.wish(false))
			k.g.queues.alsoHere(p, true)
		}
		select {
		case g := <-here.got:
			here.got = nil
			k.g.queues.alsoHere(p, false)
			if g.err == nil {
				return seat{lease: g.lease, waited: true}, nil
			}
			if !pause(ctx, lookEvery) {
				return seat{}, context.Cause(ctx)
			}
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return seat{}, context.Cause(ctx)
		}
	}
}

// wish is what the request wants of this node's engine.
func (k *call) wish(now bool) engine.Request {
	r := engine.Request{Model: k.model, Prefer: k.g.homes.find(k.model, k.session), Session: k.session, NoWait: now}
	if len(k.triedHere) > 0 {
		r.Backends = k.others(k.triedHere)
	}
	return r
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

// hereWait is a place in the engine's own line. Its goroutine ends when it has a seat, is refused, or is told to leave.
type hereWait struct {
	cancel context.CancelCauseFunc
	got    chan granted // nil while there is no place
}

type granted struct {
	lease *engine.Lease
	err   error
}

func (h *hereWait) join(ctx context.Context, e *engine.Engine, r engine.Request) {
	if h.got != nil {
		return
	}
	got := make(chan granted, 1)
	ctx, cancel := context.WithCancelCause(ctx)
	h.cancel, h.got = cancel, got
	go func() {
		defer cancel(nil)
		lease, err := e.Acquire(ctx, r)
		got <- granted{lease, err}
	}()
}

// take gives the place up. A seat that was granted before is the caller's.
func (h *hereWait) take() *engine.Lease {
	if h.got == nil {
		return nil
	}
	h.cancel(errMoved)
	g := <-h.got
	h.got = nil
	return g.lease
}

func (h *hereWait) leave() {
	if lease := h.take(); lease != nil {
		lease.Release()
	}
}

// pinFault says why a pinned request need not be waited for.
func (k *call) pinFault() error {
	if k.host == "" {
		return nil
	}
	for _, m := range k.g.members() {
		if m.Member.ID != k.host {
			continue
		}
		if m.Report != nil && !slices.Contains(m.Known, k.model) {
			return notAt(m.Member.Name, k.model)
		}
	}
	return nil
}

// notAt says that a node does not have a model that others have.
func notAt(node, model string) *Error {
	return &Error{Status: http.StatusNotFound, Code: "model_not_found", Param: "model",
		Message: fmt.Sprintf("node %q does not serve model %q; GET /v1/models lists which nodes do, under viiwork.hosts", node, shown(model))}
}

// seatless says why the request got no seat; last is what became of the attempt before, nil without one.
func (k *call) seatless(err, last error) error {
	if !errors.Is(err, errNobody) {
		return k.notServed(err)
	}
	_, here := k.g.local(k.model)
	switch {
	case last != nil:
		return k.notServed(last)
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
