package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"
)

// settled is how long a request must have been with an engine before it is taken for one that occupies a slot there,
// when not a byte of an answer has come yet.
const settled = 500 * time.Millisecond

var errSwitched = errors.New("it switched to another protocol")

// exchange is one request to the engine and the body of its answer.
type exchange struct {
	lease  *Lease
	sent   time.Time
	first  atomic.Int64 // unix ns of the first sign of an answer, 0 = none
	cancel context.CancelCauseFunc
	body   io.ReadCloser
}

// Do sends req to the engine of this lease. Of req.URL only path and query count; scheme, host and key are set here.
// Where the engine has a key the caller's own credentials are taken out. An engine that is lost gives an error, wrapping
// ErrSilent where it fell silent, here or when the body is read. The body must be read to its end for the slot to be
// free at once.
func (l *Lease) Do(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	x := &exchange{lease: l, sent: time.Now(), cancel: cancel}
	if err := l.begin(x); err != nil {
		cancel(err)
		return nil, err
	}
	var wrote atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(httptrace.GotConnInfo) { wrote.Store(true) },
		GotFirstResponseByte: x.moved,
	})
	out, err := l.outgoing(req.Clone(ctx))
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		x.finish()
		return nil, err
	}
	l.waiting.Store(time.Now().UnixNano())
	resp, err := l.b.engine.transport.RoundTrip(out)
	l.waiting.Store(0)
	if err != nil {
		err = x.explain(ctx, "asking the engine", err)
		if !wrote.Load() {
			x.finish() // it never reached the engine
		} else {
			cancel(err)
		}
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// Nobody asked for that. The connection is no longer net/http's: a read of it would outlast ctx and all patience.
		resp.Body.Close()
		cancel(errSwitched)
		return nil, fmt.Errorf("asking the engine: %w", errSwitched)
	}
	x.body = resp.Body
	if resp.Body == http.NoBody {
		x.finish()
	}
	resp.Body = &answer{exchange: x, ctx: ctx}
	return resp, nil
}

func (l *Lease) begin(x *exchange) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return fmt.Errorf("asking the engine: %w", l.lost)
	}
	if l.released {
		return fmt.Errorf("asking the engine: %w", errReleased)
	}
	if l.open == nil {
		l.open = map[*exchange]struct{}{}
	}
	l.open[x] = struct{}{}
	l.worked = true
	return nil
}

// outgoing addresses a request to the engine.
func (l *Lease) outgoing(r *http.Request) (*http.Request, error) {
	base, err := url.Parse(l.target.URL)
	if err != nil {
		return nil, errors.New("asking the engine: its address cannot be read")
	}
	r.URL.Scheme, r.URL.Host = base.Scheme, base.Host
	r.Host, r.RequestURI = "", ""
	if l.target.Key != "" {
		r.Header.Del("X-Api-Key")
		r.Header.Set("Authorization", "Bearer "+l.target.Key)
	}
	return r, nil
}

// moved notes a sign of life.
func (x *exchange) moved() {
	now := time.Now().UnixNano()
	x.first.CompareAndSwap(0, now)
	x.lease.b.moved.Store(now)
}

// begun reports whether the engine had this request in a slot at that moment, as far as can be told from here.
func (x *exchange) begun(at time.Time) bool {
	if first := x.first.Load(); first != 0 && first <= at.UnixNano() {
		return true
	}
	return at.Sub(x.sent) >= settled
}

// finish notes that the engine has nothing more to do for this request.
func (x *exchange) finish() {
	x.lease.mu.Lock()
	delete(x.lease.open, x)
	x.lease.mu.Unlock()
	x.cancel(nil)
}

// explain prefers the reason the engine was given up for over the broken connection that followed.
func (x *exchange) explain(ctx context.Context, act string, err error) error {
	x.lease.mu.Lock()
	lost := x.lease.lost
	x.lease.mu.Unlock()
	switch cause := context.Cause(ctx); {
	case lost != nil:
		return fmt.Errorf("%s: %w", act, lost)
	case cause != nil:
		return fmt.Errorf("%s: %w", act, cause)
	}
	return fmt.Errorf("%s: %w", act, err)
}

// answer is the body of an engine's answer: its bytes are signs of life, its end gives the slot back.
type answer struct {
	*exchange
	ctx   context.Context // of the exchange, which this body belongs to
	ended bool
}

func (a *answer) Read(p []byte) (int, error) {
	if a.ended {
		return 0, io.EOF
	}
	a.lease.waiting.Store(time.Now().UnixNano())
	n, err := a.body.Read(p)
	a.lease.waiting.Store(0)
	if n > 0 {
		a.moved()
	}
	switch {
	case err == io.EOF:
		a.ended = true
		a.finish()
	case err != nil:
		err = a.explain(a.ctx, "reading the engine's answer", err)
		a.cancel(err)
	}
	return n, err
}

// Close ends the request at the engine if its answer has not ended yet.
func (a *answer) Close() error {
	if !a.ended {
		a.cancel(context.Canceled)
	}
	return a.body.Close()
}
