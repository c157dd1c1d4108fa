package gateway

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
)

const (
	// memberStall is how long a member that answers may send nothing. It owes a keep-alive every 10 s.
	memberStall = 30 * time.Second
	// headRefused is what a member sets on a 403 that is about us, not about the client.
	headRefused = "X-Viiwork-Refused"
	headTask    = "X-Viiwork-Task"
	headLease   = "X-Viiwork-Lease"
)

var errMemberStalled = errors.New("the member stopped sending")

// forward lets a member answer, once. again says that it did not get to its first answer byte and another node may try.
// What the member answers is passed on as it is: it has taken out what is not the client's.
func (k *call) forward(s seat) (again bool, err error) {
	defer k.g.lineup.arrived(s.asked)
	own := k.g.joined.Load() // not nil: there was a member to choose
	if k.ctx.Err() != nil {
		go giveBack(own.Client, s.member, s.grant) // for returnFor at most
		return false, context.Cause(k.ctx)
	}
	k.findHome()
	claimed := k.claim(s.member, s.grant.Backend)
	defer func() {
		if err == nil {
			k.g.known.Prove(s.member, claimed, k.tally.cached)
		}
	}()
	k.assigned(s)
	k.body.lent = true
	ctx, cancel := context.WithCancelCause(k.ctx)
	defer cancel(nil)
	ctx, heard := own.Table.Guard(ctx, s.member.ID)
	defer heard()
	sent := time.Now()
	resp, err := own.Client.Forward(ctx, s.member, k.passedOn(s))
	if err != nil {
		return k.unanswered(ctx, s.member, err)
	}
	k.answers(s.member, sent)
	defer resp.Body.Close()
	watchdog := time.AfterFunc(memberStall, func() { cancel(errMemberStalled) })
	defer watchdog.Stop()
	resp.Body = &paced{resp.Body, watchdog}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return k.turnedDown(s.member, resp)
	}
	f := &follower{rt: k.rt, choices: k.facts.choices(k.body.bytes), tally: newTally()}
	f.progress, _ = k.facts.flag(k.body.bytes, keyReturnProgress, "return_progress")
	if !k.stream || !isEventStream(resp.Header) {
		if !isJSON(resp.Header) {
			return false, unreadable() // a member has no say in what a browser takes an answer for
		}
		heard()
		k.answeredBy(s.member, resp.Header)
		if err = k.plain(resp); isLoss(err) {
			err = memberLost(ctx, s.member)
		}
		k.told(resp.Trailer)
		return false, err
	}
	r := relay{k: k, f: f, first: func() { heard(); k.answeredBy(s.member, resp.Header) }}
	err = r.pass(resp.Body)
	k.tally = f.tally
	if errors.Is(err, errCut) {
		if !r.begun && k.ctx.Err() == nil {
			return k.unanswered(ctx, s.member, err)
		}
		return false, memberLost(ctx, s.member)
	}
	k.told(resp.Trailer)
	return false, err
}

// assigned notes in the row where the request is on its way to.
func (k *call) assigned(s seat) {
	k.course.Placed = k.g.now()
	k.course.Forwarded = k.course.Placed
	reason := because(s.reason, s.waited, "", "")
	ms := float64(k.waited.Microseconds()) / 1000
	k.row.update(func(r *status.Request) {
		r.Node, r.Backend, r.Reason, r.State, r.QueueMS = s.member.Name, s.grant.Backend, reason, statePrefill, &ms
	})
}

// passedOn is the request for the member: the client's own bytes, and what the member should know of it.
func (k *call) passedOn(s seat) mesh.Forward {
	h := forwarded(k.c.Request().Header)
	h.Set(headID, k.id)
	h.Set(headOrigin, k.g.cfg.Node)
	row := k.row.copy()
	h.Set(headRoute, row.Reason)
	h.Set(headKey, row.KeySource)
	h.Set(headLease, s.grant.ID)
	if row.Task != "" {
		h.Set(headTask, row.Task)
	}
	h.Set(headModel, url.PathEscape(k.model))
	return mesh.Forward{Path: k.rt.path, Query: k.query, Header: h, Body: k.body.bytes}
}

// told takes over what the member says of itself.
func (k *call) told(h http.Header) {
	for _, name := range late {
		if v := h.Get(name); v != "" && len(v) <= maxModelName && printable(v) && name != headQueue {
			k.ans.know(name, v)
		}
	}
	backend, model, reason := h.Get(headBackend), h.Get(headModel), h.Get(headRoute)
	k.row.update(func(r *status.Request) {
		setText(&r.Backend, backend)
		setText(&r.Model, model)
		setText(&r.Reason, reason)
	})
	k.ans.know(headQueue, strconv.FormatInt(k.waited.Milliseconds(), 10))
}

func setText(to *string, v string) {
	if v != "" && len(v) <= maxModelName && printable(v) {
		*to = v
	}
}

// answeredBy notes that the answer comes from the member, for certain.
func (k *call) answeredBy(m mesh.Member, h http.Header) {
	k.told(h)
	k.went(m.ID, k.row.copy().Backend)
}

// unanswered is a member from which nothing of an answer came. One that broke off may have done so over the request.
func (k *call) unanswered(ctx context.Context, m mesh.Member, why error) (again bool, err error) {
	if k.ctx.Err() != nil {
		return false, context.Cause(k.ctx)
	}
	if !errors.Is(why, mesh.ErrUnreachable) && !errors.Is(context.Cause(ctx), mesh.ErrSilent) {
		k.lost++
	}
	k.passOver(m)
	return k.lost < maxLost, memberLost(ctx, m)
}

// turnedDown reads an answer that is an error. Refusals that are not about the request itself let another node try.
func (k *call) turnedDown(m mesh.Member, resp *http.Response) (again bool, err error) {
	e := refused(resp, k.rt)
	switch {
	case e.Status < 400:
		e.Status = http.StatusBadGateway // a redirect leads nowhere a client could go
		return false, e
	case e.Status == http.StatusTooManyRequests:
		k.markFull(m)
		k.bounce(m)
		return true, e
	case resp.Header.Get(headRefused) != "":
		e = memberRefuses(m, e.Message)
	case e.Status == http.StatusServiceUnavailable:
	case e.Status == http.StatusNotFound && e.Code == "model_not_found": // gone since it last told of it
	default:
		return false, e
	}
	k.passOver(m)
	return true, e
}

func isJSON(h http.Header) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && kind == "application/json"
}

// isLoss tells whether an answer was lost on its way, rather than the client.
func isLoss(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == "engine_broke_off"
}

// paced gives a member's answer up when nothing comes of it. Time in which nobody reads does not count.
type paced struct {
	io.ReadCloser
	watchdog *time.Timer
}

func (p *paced) Read(b []byte) (int, error) {
	p.watchdog.Reset(memberStall)
	n, err := p.ReadCloser.Read(b)
	p.watchdog.Stop()
	return n, err
}
