package mesh

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	maxStanding = 8 << 10 // bytes of a line, and of a whole answer that is none
	// ownerSilent is how often in a row listenEvery may pass without a byte of an owner, who owes one line a second.
	// Intervals are counted, not time: those in which this process stood still are one.
	ownerSilent = 6
	listenEvery = 500 * time.Millisecond
)

var errBrokeOff = errors.New("asking for a seat: the member broke off")

// AskSeat asks m for a seat and waits in its line for it, for as long as a says. waits is told each place in the line,
// and how long it may take (< 0 = unknown); it may be nil. When ctx ends, the place is given up.
//
// Errors: ErrUnreachable, *SeatRefused, ctx's cause, and ErrSilent for an owner that says nothing for 3 s; any other is
// an owner that broke off. Then a seat may have been granted, which lapses.
func (c *Client) AskSeat(ctx context.Context, m Member, a Ask, waits func(ahead int, expect time.Duration)) (Grant, error) {
	body, err := json.Marshal(a)
	if err != nil {
		return Grant{}, fmt.Errorf("asking for a seat: %w", err)
	}
	ctx, heard, end := listen(ctx)
	defer end()
	var left time.Time
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { left = time.Now() }})
	header := http.Header{"Content-Type": {typeReport}}
	resp, err := c.send(ctx, m, outgoing{method: http.MethodPost, url: url.URL{Path: leasePath}, header: header, body: body})
	if err != nil {
		return Grant{}, err
	}
	defer resp.Body.Close()
	heard()
	if a.WaitMS <= 0 { // who need not wait is answered at once
		c.ways.took(m.ID, time.Since(left))
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode != http.StatusOK:
		return Grant{}, readSeatRefused(resp)
	case kind == typeStream && a.WaitMS <= 0: // a place in a line is not what was asked for
		return Grant{}, errBrokeOff
	case kind == typeStream:
		return readStanding(ctx, resp.Body, heard, waits)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxStanding))
	if err != nil {
		return Grant{}, brokeOff(ctx)
	}
	var g Grant
	if json.Unmarshal(data, &g) != nil || !g.inBounds() {
		return Grant{}, errBrokeOff
	}
	return g, nil
}

// ReturnSeat gives back a granted seat that will not be used. That there is no such seat any more is no error.
func (c *Client) ReturnSeat(ctx context.Context, m Member, id string) error {
	if !isLease(id) {
		return errors.New("returning a seat: that is no lease")
	}
	ctx, heard, end := listen(ctx)
	defer end()
	resp, err := c.send(ctx, m, outgoing{method: http.MethodDelete, url: url.URL{Path: leasePath + "/" + id}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	heard()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxStanding)) // so that the connection can be used again
	if resp.StatusCode != http.StatusNoContent && resp.StatusCode != http.StatusNotFound {
		return fmt.Errorf("returning a seat: the member answers %d", resp.StatusCode)
	}
	return nil
}

// listen ends ctx with ErrSilent when a member that has been connected to is not heard. end must be called.
func listen(ctx context.Context) (listening context.Context, heard, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var missed atomic.Int32
	missed.Store(-1 << 20) // until there is a connection, whose making has its own limit
	heard = func() { missed.Store(0) }
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { heard() }})
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(listenEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if missed.Add(1) >= ownerSilent {
					cancel(ErrSilent)
				}
			}
		}
	}()
	return ctx, heard, func() { cancel(nil); <-done }
}

// readStanding follows the place in the line to its end.
func readStanding(ctx context.Context, body io.Reader, heard func(), waits func(int, time.Duration)) (Grant, error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 512), maxStanding)
	for lines.Scan() {
		heard()
		var s standing
		if json.Unmarshal(lines.Bytes(), &s) != nil {
			return Grant{}, errBrokeOff
		}
		switch g := (Grant{ID: s.ID, Backend: s.Backend}); {
		case s.Refused != nil:
			return Grant{}, s.Refused.refusal()
		case s.Ahead == nil && g.inBounds():
			lines.Scan() // the end, which follows at once: so the connection can be used again
			return g, nil
		case s.Ahead == nil || !isCount(*s.Ahead):
			return Grant{}, errBrokeOff
		}
		if waits != nil {
			expect := time.Duration(-1)
			if s.ExpectMS != nil && *s.ExpectMS >= 0 {
				expect = millis(*s.ExpectMS)
			}
			waits(*s.Ahead, expect)
		}
		pause(ctx, minPause) // an owner that talks without end is held back
	}
	return Grant{}, brokeOff(ctx)
}

// brokeOff prefers the reason the wait was ended for.
func brokeOff(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return errBrokeOff
}

func (g Grant) inBounds() bool { return isLease(g.ID) && isBackendID(g.Backend) }

// readSeatRefused reads an answer that is an error.
func readSeatRefused(resp *http.Response) error {
	var doc struct {
		Error refusedLine `json:"error"`
	}
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxStanding))
	if json.Unmarshal(bytes.TrimSpace(data), &doc) != nil {
		doc.Error = refusedLine{}
	}
	doc.Error.Status = resp.StatusCode
	if after, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		doc.Error.RetryAfterMS = int64(min(max(after, 0), 1<<20)) * 1000
	}
	return doc.Error.refusal()
}
