package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/kvshare"
	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
	"viiwork/engine"
)

// States of a row.
const (
	stateQueued     = "queued"
	statePrefill    = "prefill"
	stateGenerating = "generating"
	stateDone       = "done"
)

var (
	errClientGone = fmt.Errorf("the client left: %w", context.Canceled)
	errLingered   = errors.New("the engine kept a finished answer open")
)

// call is one request on its way through the node. Its fields belong to the handler's goroutine.
type call struct {
	g     *Gateway
	c     echo.Context
	rt    endpoint
	id    string
	start time.Time

	body   body
	facts  facts
	model  string
	alias  string // the body's name for it, "" = its own
	stream bool   // the client wants events
	query  string
	pinned bool     // to this node
	host   string   // id of the member it is pinned to; "" = none
	prefer []string // names
	hop    *hop     // nil = it enters the mesh here

	source  string // where the session key came from
	session string // its digest
	begins  *prefix

	ctx    context.Context // of this request: ends when the client leaves or somebody cancels it
	cancel context.CancelCauseFunc
	row    *entry
	ans    *answer
	tally  tally
	linger *time.Timer
	caches *kvshare.Start // of the attempt at an engine of this node
	flight *flight        // at an engine of this node; nil = it is at none
	began  time.Time      // when that got it
	first  time.Duration  // from then on to the first content; 0 = none yet
	lost   int            // engines that broke off or fell silent over this request

	// Of its way through the mesh.
	home      homeAt
	found     mesh.Found         // what was known of the prompt when it was last looked for
	tried     []string           // ids of members
	triedHere []string           // backends of this node
	bounced   map[string]bounces // by member
	shut      map[string]shut    // by node
	last      error              // what became of the attempt before
	course    Course
	ticket    uint64 // of its place in the lineup, 0 = none yet
	waited    time.Duration
	until     time.Time // it is given up
}

// handle makes the handler of an inference route.
func (g *Gateway) handle(rt endpoint) echo.HandlerFunc {
	return func(c echo.Context) error {
		g.inflight.Add(1)
		defer g.inflight.Add(-1)
		k := &call{g: g, c: c, rt: rt, id: c.Response().Header().Get(headID), start: g.now(), tally: newTally()}
		c.Response().Header().Set(headOrigin, g.cfg.Node)
		defer func() { k.hop.drop() }()
		if err := k.arrive(); err != nil {
			return k.refuse(err)
		}
		if err := k.steer(); err != nil {
			return k.refuse(err)
		}
		var err error
		if k.body, err = g.readBody(c, k.bodyIdle()); err != nil {
			return k.refuse(err)
		}
		defer k.body.release()
		if err := k.decode(); err != nil {
			return k.dismissed(err)
		}
		k.open()
		defer k.close()
		return k.finish(k.throughAlias(k.run()))
	}
}

// refuse answers with err before the body has come. The slot that came with the request is somebody else's at once: who
// sends on is listened to for a while.
func (k *call) refuse(err error) error {
	k.hop.drop()
	return k.g.refuse(k.c, k.dismissed(err))
}

// decode learns from the body what routing needs.
func (k *call) decode() (err error) {
	b := k.body.bytes
	if k.facts, err = scan(b); err != nil {
		return err
	}
	if k.model, err = k.facts.model(b); err != nil {
		return err
	}
	if k.stream, err = k.facts.flag(b, keyStream, "stream"); err != nil {
		return err
	}
	k.stream = k.stream && k.rt.streams()
	k.resolve()
	var key string
	key, k.source = k.g.sessionKey(k.c.Request().Header, b, &k.facts)
	k.session = k.g.digest(key)
	return nil
}

func (k *call) open() {
	k.ctx, k.cancel = context.WithCancelCause(k.c.Request().Context())
	task, origin := k.c.Request().Header.Get(headTask), k.g.cfg.Node
	if k.hop != nil {
		origin = k.hop.origin
	}
	if len(task) > 64 || !printable(task) {
		task = ""
	}
	k.course = Course{Came: k.start, Read: k.g.now()}
	k.row = k.g.ledger.add(status.Request{
		ID: k.id, Client: k.client(), Time: k.start, Entry: origin, Path: k.rt.path, Model: k.model, Alias: k.alias,
		Session: k.session, KeySource: k.source, State: stateQueued, Task: task,
	}, k.cancel)
	k.ans = newAnswer(k.c)
	k.ans.know(headKey, k.source)
}

// client names the device that it came from, at the node where it came in.
func (k *call) client() string {
	if k.hop != nil || k.g.cfg.Caller == nil {
		return ""
	}
	return k.g.cfg.Caller(k.c.Request())
}

// close ends all that the call still has running, also after a panic.
func (k *call) close() {
	k.cancel(nil)
	if k.linger != nil {
		k.linger.Stop()
	}
	k.ans.end()
	k.row.update(func(r *status.Request) {
		if r.State != stateDone {
			r.State, r.Status, r.Error = stateDone, http.StatusInternalServerError, "internal_error"
		}
	})
	k.g.ledger.ended(k.row)
	k.ended()
}

// run lets this node answer what a member sent it, and any node what enters here.
func (k *call) run() error {
	if k.stream {
		k.ans.keepAlive(min(k.g.cfg.QueueTimeout+holdSlack, maxHold), k.g.cfg.KeepAlive, k.keepAlives())
	}
	k.prefix()
	if k.hop != nil {
		return k.runHop()
	}
	return k.runAcross()
}

// granted notes where the request runs, and why there.
func (k *call) granted(lease *engine.Lease, reason string, queued time.Duration) {
	k.course.Placed, k.course.Forwarded = k.g.now(), time.Time{}
	backend := lease.Backend()
	ms := float64(queued.Microseconds()) / 1000
	k.went(k.g.id(), backend)
	k.ans.know(headNode, k.g.cfg.Node)
	k.ans.know(headBackend, backend)
	k.ans.know(headModel, lease.Model())
	k.ans.know(headRoute, reason)
	k.ans.know(headQueue, strconv.FormatInt(queued.Milliseconds(), 10))
	k.row.update(func(r *status.Request) {
		r.Node, r.Backend, r.Model, r.Reason, r.State = k.g.cfg.Node, backend, lease.Model(), reason, statePrefill
		r.QueueMS = &ms
	})
}

// others lists the model's backends that serve now and are not among tried.
func (k *call) others(tried []string) []string {
	var ids []string
	for _, m := range k.g.cfg.Engine.Snapshot() {
		if m.Model.Name != k.model {
			continue
		}
		for _, b := range m.Backends {
			if serving(b.State) && !slices.Contains(tried, b.ID) {
				ids = append(ids, b.ID)
			}
		}
	}
	return ids
}

// notServed says why the request got no seat.
func (k *call) notServed(err error) error {
	switch {
	case k.hop != nil && errors.Is(err, engine.ErrFull):
		return k.noSeat(k.model)
	case errors.Is(err, engine.ErrUnknownModel):
		return k.g.unknownModel(k.model)
	case errors.Is(err, engine.ErrNotReady):
		return k.notReady()
	}
	if e := asError(err); e.Status == http.StatusTooManyRequests && k.hop == nil {
		later := *e
		later.RetryAfter = k.comeBack()
		if k.rt.kind == kindResponses {
			later.Status = http.StatusServiceUnavailable // clients of that API lose the turn on 429 and come again on 503
		}
		return &later
	}
	return err
}

// notReady says what the model is doing instead.
func (k *call) notReady() error {
	e := asError(engine.ErrNotReady)
	best := engine.BackendState{State: engine.StateFailed, Progress: -1}
	for _, m := range k.g.cfg.Engine.Snapshot() {
		if m.Model.Name != k.model {
			continue
		}
		for _, b := range m.Backends {
			if rank(b.State) < rank(best.State) || b.State == best.State && b.Progress > best.Progress {
				best = b
			}
		}
	}
	switch {
	case best.State == engine.StateDraining:
		return engine.ErrDraining
	case best.State == engine.StateFailed:
		e.Message = "the model's engine cannot be started; \"viiwork status\" on this node says why"
	case best.State == engine.StateLoading && best.Progress >= 0:
		e.Message = fmt.Sprintf("the model is loading (%.0f %%); try again shortly", best.Progress*100)
	default:
		e.Message = fmt.Sprintf("the model is not ready (its engine is %s); try again shortly", best.State)
	}
	return e
}

// finish writes what is still to be written and closes the row.
func (k *call) finish(err error) error {
	k.ans.stop()
	code := http.StatusOK
	text := ""
	if err != nil {
		if cause := context.Cause(k.ctx); cause != nil && !errors.Is(cause, errLingered) {
			err = errClientGone
			if errors.Is(cause, errCancelled) || errors.Is(cause, errStopped) {
				err = cause
			}
		}
		e := asError(err)
		code, text = e.Status, e.Code
	}
	k.row.update(func(r *status.Request) {
		r.State, r.Status, r.Error = stateDone, code, text
		k.tally.into(r)
	})
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return nil
	case k.ans.started():
		k.lastWord(asError(err))
		return nil
	}
	return err
}

// lastWord ends an answer under way with an error: an event where events are expected, a broken connection else.
func (k *call) lastWord(e *Error) {
	if !k.ans.events() {
		panic(http.ErrAbortHandler)
	}
	_ = k.ans.event(e.event(k.rt.kind), true) // a client that left needs none
}
