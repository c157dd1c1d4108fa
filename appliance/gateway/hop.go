package gateway

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/appliance/route"
	"viiwork/engine"
)

const (
	headSlots = "X-Viiwork-Slots"
	headFree  = "X-Viiwork-Free"
)

// hop is what a member says of a request it passes on. It is signed.
type hop struct {
	origin string // name of the node the request came in by
	reason route.Reason
	task   string
	entry  string        // id of the member
	prefix bool          // the entry knew the conversation by its prompt
	model  string        // what it is to run on; "" = the body says
	lease  *engine.Lease // granted for the request before it came, nil = none, or it is taken
}

// arrive looks whether the request comes from a member, before a byte of its body is read. What bears a member's marks
// and no good signature is refused, whoever sent it: a client has no business with them. One that does come from a
// member runs here, at once, or is refused; it is never passed on.
func (k *call) arrive() error {
	r, own := k.c.Request(), k.g.joined.Load()
	if own == nil || !mesh.FromMember(r) {
		return nil
	}
	h := k.c.Response().Header()
	peer, err := own.Verifier.Check(r)
	if err != nil {
		return k.turnAway(err)
	}
	k.hop = &hop{origin: r.Header.Get(headOrigin), reason: knownReason(r.Header.Get(headRoute)), task: r.Header.Get(headTask), entry: peer.ID}
	k.hop.prefix = r.Header.Get(headKey) == sourcePrefix
	if k.hop.origin == "" || len(k.hop.origin) > 64 || !printable(k.hop.origin) {
		k.hop.origin = peer.ID
	}
	k.hop.model, _ = url.PathUnescape(r.Header.Get(headModel)) // what cannot be read is no model
	h.Set(headOrigin, k.hop.origin)
	if id := r.Header.Get(headID); isRequestID(id) {
		k.id = id
		h.Set(headID, id)
	}
	r.Body = verified{peer.VerifyBody(r.Body), r.Body}
	model := k.hop.model
	if id := r.Header.Get(headLease); id != "" {
		if lease, ok := own.Desk.Redeem(peer.ID, id, model); ok {
			k.hop.lease = lease
		}
	}
	if k.hop.lease == nil && r.Header.Get("Expect") != "" && model != "" && k.fullFor(model) {
		return k.noSeat(model) // it asks before it sends a long body
	}
	return nil
}

// runHop answers with the slot that was granted for the request, or with a free one; it waits for none. A backend that
// cannot take the request, before its first answer byte, is passed over for the next.
func (k *call) runHop() error {
	defer k.g.joined.Load().Desk.Bind(k.hop.entry, func(why error) { k.cancel(why); k.ans.giveUp() })()
	var accept, tried []string
	k.recognise()
	for {
		home := k.atHome(k.home)
		lease, err := k.hop.take(k.model), error(nil)
		if lease == nil {
			lease, err = k.g.cfg.Engine.Acquire(k.ctx, engine.Request{Model: k.model, Backends: accept, Prefer: home, Session: k.session, NoWait: true})
		}
		if err != nil {
			return k.notServed(err)
		}
		k.granted(lease, because(k.hop.reason, false, lease.Backend(), home), lease.Timing().Queued)
		again, err := k.attempt(lease)
		if !again || k.ctx.Err() != nil {
			return err
		}
		tried = append(tried, lease.Backend())
		if accept = k.others(tried); len(accept) == 0 {
			return err
		}
	}
}

// take gives the lease that came with the request, once, and only for the model it is for.
func (h *hop) take(model string) *engine.Lease {
	if h == nil || h.lease == nil || h.lease.Model() != model {
		return nil
	}
	lease := h.lease
	h.lease = nil
	return lease
}

// drop gives a lease back that was not needed. Calling it again does nothing.
func (h *hop) drop() {
	if h != nil && h.lease != nil {
		h.lease.Release()
		h.lease = nil
	}
}

// turnAway refuses a request with a member's marks.
func (k *call) turnAway(err error) error {
	e := &Error{Status: http.StatusForbidden, Code: "refused", Message: "the request is refused"}
	var refused *mesh.Refusal
	if errors.As(err, &refused) {
		refused.SetHeaders(k.c.Response().Header())
		e.Code, e.Message = refused.Code, refused.Error()
	}
	now := k.g.now().UnixNano()
	if last := k.g.turnedAway.Load(); now-last >= int64(time.Minute) && k.g.turnedAway.CompareAndSwap(last, now) { // strangers must not fill the log
		k.g.log.Warn("a request with the marks of a member was refused", "address", k.c.Request().RemoteAddr, "code", e.Code, "why", e.Message)
	}
	return e
}

// verified is a body that proves at its end to be the one that was signed.
type verified struct {
	io.Reader
	io.Closer
}

var errForged = &Error{Status: http.StatusForbidden, Code: "body_digest", Message: "the body is not the one that was signed: it was changed on its way"}

// fullFor tells whether the model is served here and has no free slot.
func (k *call) fullFor(model string) bool {
	n, ok := k.hereFor(model)
	return ok && n.Serves() && n.Free() == 0
}

// noSeat refuses a member's request at once, with what it needs to correct its picture of this node.
func (k *call) noSeat(model string) *Error {
	n, _ := k.hereFor(model)
	slots := 0
	for _, b := range n.Backends {
		slots += b.Slots
	}
	h := k.c.Response().Header()
	h.Set(headSlots, strconv.Itoa(slots))
	h.Set(headFree, strconv.Itoa(n.Free()))
	return &Error{Status: http.StatusTooManyRequests, Code: "node_full", RetryAfter: 2 * time.Second, Message: "this node has no free slot for the model; a request that comes without a lease does not wait"}
}

// because is the reason of a plan as far as it holds for the backend that runs the request.
func because(planned route.Reason, waited bool, backend, home string) string {
	switch here := planned == route.Home || planned == route.Wait; {
	case here && home != "" && home != backend:
		return string(route.Move)
	case here && waited:
		return string(route.Wait)
	}
	return string(planned)
}

func knownReason(s string) route.Reason {
	switch r := route.Reason(s); r {
	case route.Only, route.Pinned, route.Home, route.Move, route.Wait:
		return r
	}
	return route.Cold
}

// isRequestID accepts what newID makes.
func isRequestID(s string) bool {
	if len(s) != 16 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
