package mesh

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// lookEvery is how often a place in the line is looked at: at most so often the asker is told of a change.
	lookEvery = 200 * time.Millisecond
	// quietLooks is how many looks without a change make it time to show that this node lives.
	quietLooks = 5
)

var errWaited = errors.New("waited in the line as long as was asked for")

// ServeHTTP answers POST /v1/lease with a seat, a refusal, or the line's progress until there is one of the two, and
// DELETE /v1/lease/{id} by taking a granted seat back.
func (d *Desk[S]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	peer, err := d.cfg.Verifier.Check(r)
	if err != nil {
		WriteRefusal(w, err)
		return
	}
	lease, named := strings.CutPrefix(r.URL.Path, leasePath+"/")
	switch {
	case named && r.Method == http.MethodDelete:
		if !isLease(lease) || !d.giveBack(peer.ID, lease) {
			WriteError(w, http.StatusNotFound, "lease_not_found", "there is no such lease: it has lapsed, was used or never was")
			return
		}
		w.WriteHeader(http.StatusNoContent)
	case r.URL.Path == leasePath && r.Method == http.MethodPost:
		d.serveAsk(w, r, peer)
	case named:
		w.Header().Set("Allow", http.MethodDelete)
		WriteError(w, http.StatusMethodNotAllowed, "method_not_allowed", "a lease is given back with DELETE")
	default:
		w.Header().Set("Allow", http.MethodPost)
		WriteError(w, http.StatusMethodNotAllowed, "method_not_allowed", "a seat is asked for with POST")
	}
}

func (d *Desk[S]) serveAsk(w http.ResponseWriter, r *http.Request, peer Peer) {
	a, err := readAsk(peer.VerifyBody(r.Body))
	switch {
	case errors.Is(err, errAskSize):
		WriteError(w, http.StatusRequestEntityTooLarge, "too_large", err.Error())
		return
	case errors.Is(err, ErrBodyDigest):
		WriteError(w, http.StatusForbidden, "body_digest", err.Error())
		return
	case err != nil:
		WriteError(w, http.StatusBadRequest, "bad_ask", errAsk.Error())
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	to := &reply{w: w, rc: http.NewResponseController(w)}
	defer to.done()
	c, err := d.enter(peer.ID, a.Model, cancel)
	if err != nil {
		to.refuse(d.refusal(ctx, err))
		return
	}
	g, err := d.seat(ctx, c, a, to)
	if err == nil {
		err = to.grant(g)
	}
	if err == nil {
		return
	}
	d.drop(c) // also a seat that could not be handed over: who asked is gone
	if r.Context().Err() == nil {
		to.refuse(d.refusal(ctx, err))
	}
}

// seat stands in the line until there is a seat, telling the asker its place meanwhile.
func (d *Desk[S]) seat(ctx context.Context, c *claim[S], a Ask, to *reply) (Grant, error) {
	place, err := d.join(c, a)
	if err != nil {
		return Grant{}, err
	}
	if a.wait() == 0 && !isDone(place) {
		return Grant{}, refusedFull
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := d.cfg.Table.clock.after(a.wait(), func() { cancel(errWaited) })
	defer timer.stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for ahead, quiet := -1, 0; !isDone(place); quiet++ {
		if n := place.Ahead(); n != ahead || quiet >= quietLooks {
			if err := to.say(standing{Ahead: &n, ExpectMS: d.expect(a.Model, n)}); err != nil {
				return Grant{}, err
			}
			ahead, quiet = n, 0
		}
		select {
		case <-place.Done():
		case <-look.C:
		case <-ctx.Done():
			return Grant{}, context.Cause(ctx)
		}
	}
	return d.collect(c)
}

func isDone[S Seat](p Place[S]) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

func (d *Desk[S]) expect(model string, ahead int) *int64 {
	if d.cfg.Expect == nil {
		return nil
	}
	wait := d.cfg.Expect(model, ahead)
	if wait < 0 {
		return nil
	}
	ms := wait.Milliseconds()
	return &ms
}

// refusal is what the asker is told of err.
func (d *Desk[S]) refusal(ctx context.Context, err error) *SeatRefused {
	if errors.Is(err, errOver) { // by whoever ended it, who is about to say why
		<-ctx.Done()
		err = context.Cause(ctx)
	}
	var own *SeatRefused
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, errCrowd):
		return refusedCrowd
	case errors.Is(err, errEnding):
		return refusedEnding
	case errors.Is(err, errWaited):
		return refusedWaited
	case errors.Is(err, ErrEntryLost):
		return refusedLost
	}
	if d.cfg.Explain != nil {
		if e := d.cfg.Explain(err); e != nil {
			return e
		}
	}
	return refusedFault
}

// reply is the answer to one Ask: a single document, unless it begins with a place in the line.
type reply struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	began bool // it is a stream
}

// say writes one line of the stream. A member that takes nothing for long is cut off.
func (y *reply) say(s standing) error {
	if !y.began {
		y.began = true
		y.w.Header().Set("Content-Type", typeStream)
		y.w.Header().Set("Cache-Control", "no-store")
		y.w.WriteHeader(http.StatusOK)
	}
	line, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return y.write(append(line, '\n'))
}

func (y *reply) grant(g Grant) error {
	if y.began {
		return y.say(standing{ID: g.ID, Backend: g.Backend})
	}
	body, err := json.Marshal(g)
	if err != nil {
		return err
	}
	y.w.Header().Set("Content-Type", typeReport)
	y.w.Header().Set("Cache-Control", "no-store")
	y.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	return y.write(body)
}

func (y *reply) refuse(e *SeatRefused) {
	if y.began {
		_ = y.say(standing{Refused: e.line()}) // the asker may have gone
		return
	}
	if e.RetryAfter > 0 {
		y.w.Header().Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
	WriteError(y.w, e.Status, e.Code, e.Message)
}

func (y *reply) write(b []byte) error {
	_ = y.rc.SetWriteDeadline(time.Now().Add(writeFor)) // an in-memory server has none to set
	if _, err := y.w.Write(b); err != nil {
		return err
	}
	return y.rc.Flush()
}

func (y *reply) done() { _ = y.rc.SetWriteDeadline(time.Time{}) } // the connection may serve another request
