package mesh

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"time"
)

const (
	firstBackoff = 200 * time.Millisecond
	maxBackoff   = 3 * time.Second
	// openFor is how long a member may take to begin its answer, connection included.
	openFor = dialFor + 2*time.Second
	// pollEvery and pollFor are for a member whose stream does not come through: it is asked, and after a while the
	// stream is tried again.
	pollEvery   = time.Second
	pollFor     = time.Minute
	pollBriefly = 5 * time.Second // where there may be room for a stream soon
	pollWithin  = 3 * time.Second
	// minPause and maxFlow hold back a member that talks without end: an honest one sends a line each 20 ms at most.
	minPause = 10 * time.Millisecond
	maxFlow  = 1 << 20 // bytes a second
)

var (
	errNoStream = errors.New("following the capacity: the member has no stream")
	errNoRoom   = errors.New("following the capacity: the member begins no stream now") // it starts, or as many follow it as may
	errStalled  = errors.New("following the capacity: nothing came on the stream")
	errEnded    = errors.New("following the capacity: the member ended the stream")
	errOther    = errors.New("following the capacity: another node answers at the member's address")
	errHeld     = errors.New("following the capacity: the member is in quarantine")
)

// refusedError is a member that answered with something else than its capacity.
type refusedError struct {
	status int
	code   string // of a 403, "" = none known
}

func (e *refusedError) Error() string {
	if text := refusalText[e.code]; text != "" {
		return "following the capacity: the member refuses: " + text
	}
	return fmt.Sprintf("following the capacity: the member answers %d", e.status)
}

// follower follows one member until it is told to end. It alone writes what the member says.
type follower struct {
	member  Member
	client  *Client
	table   *Table
	session *SessionKey
	known   *Register // nil = what the member holds is of no interest
	log     *slog.Logger
	state   string // last logged
	told    []byte // the last key of sessions, sealed
}

// follow tries the stream again and again, polls where it does not come through, and probes a member in quarantine.
func (f *follower) follow(ctx context.Context) {
	backoff := firstBackoff
	for probes := 0; ctx.Err() == nil; {
		if hold := f.table.hold(f.member.ID, probes); hold > 0 {
			probes++
			if pause(ctx, hold) && f.poll(ctx) == nil {
				f.table.free(f.member.ID)
				probes, backoff = 0, firstBackoff
			}
			continue
		}
		began, err := f.stream(ctx)
		switch {
		case errors.Is(err, errNoStream), errors.Is(err, errStalled):
			began, err = f.pollOn(ctx, pollFor)
		case errors.Is(err, errNoRoom):
			began, err = f.pollOn(ctx, pollBriefly)
		}
		if ctx.Err() != nil {
			return
		}
		if began {
			backoff = firstBackoff
		}
		if err != nil && !errors.Is(err, errHeld) {
			f.fail(err)
			pause(ctx, backoff/2+rand.N(backoff))
			backoff = min(2*backoff, maxBackoff)
		}
	}
}

// stream reads the member's stream until it ends. began says that it has told its capacity.
func (f *follower) stream(ctx context.Context) (began bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := f.table.clock.after(openFor, func() { cancel(errStalled) })
	defer watchdog.stop()
	query := "watch=1"
	if f.known != nil {
		query += "&residents=1"
	}
	resp, err := f.ask(ctx, query)
	var refused *refusedError
	if errors.As(err, &refused) && refused.status == http.StatusServiceUnavailable {
		return false, errNoRoom
	}
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != typeStream {
		return false, errNoStream
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 4<<10), maxReport+2) // it wants more room than the longest line takes
	var last *Report
	var told hearing
	for watchdog.reset(f.table.stale); lines.Scan(); watchdog.reset(f.table.stale) {
		l, err := parseLine(lines.Bytes())
		if err == nil {
			last, err = f.read(l, last, &told)
		}
		if err != nil {
			return last != nil, err
		}
		if f.table.hold(f.member.ID, 0) > 0 {
			return true, errHeld
		}
		pause(ctx, max(minPause, time.Duration(len(lines.Bytes()))*time.Second/maxFlow))
	}
	return last != nil, streamEnd(ctx, lines.Err())
}

// read believes one line after the report was.
func (f *follower) read(l line, was *Report, told *hearing) (*Report, error) {
	if l.Holdings != nil && was != nil && f.known != nil {
		return was, f.known.hear(f.member.ID, l.Holdings, told)
	}
	next, err := l.report(was)
	if err == nil {
		err = f.take(next)
	}
	if err != nil {
		return was, err
	}
	if f.known != nil && told.residents != nil { // what it holds it tells at one go
		f.known.heardAll(f.member.ID)
	}
	return next, nil
}

func streamEnd(ctx context.Context, err error) error {
	switch {
	case context.Cause(ctx) != nil:
		return context.Cause(ctx)
	case errors.Is(err, bufio.ErrTooLong):
		return errTooMuch
	case err != nil:
		return fmt.Errorf("following the capacity: %w", err)
	}
	return errEnded
}

// pollOn asks once a second until the member fails or it is time to try the stream again.
func (f *follower) pollOn(ctx context.Context, span time.Duration) (began bool, err error) {
	for until := time.Now().Add(span); time.Now().Before(until); began = true {
		if err := f.poll(ctx); err != nil {
			return began, err
		}
		if f.table.hold(f.member.ID, 0) > 0 || !pause(ctx, pollEvery) {
			return true, errHeld
		}
	}
	return began, nil
}

// poll asks once.
func (f *follower) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pollWithin, errStalled)
	defer cancel()
	resp, err := f.ask(ctx, "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxReport+1))
	switch {
	case err != nil:
		return lost(ctx, err)
	case len(data) > maxReport:
		return errTooMuch
	}
	report, err := readReport(data)
	if err != nil {
		return err
	}
	return f.take(report)
}

// ask sends the request and accepts a 200 only.
func (f *follower) ask(ctx context.Context, query string) (*http.Response, error) {
	out := outgoing{method: http.MethodGet, url: url.URL{Path: capacityPath, RawQuery: query}}
	resp, err := f.client.send(ctx, f.member, out)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, &refusedError{status: resp.StatusCode, code: resp.Header.Get(headerRefused)}
	}
	return resp, nil
}

// take believes a report if it is the member's own.
func (f *follower) take(r *Report) error {
	if r.ID != f.member.ID {
		return errOther
	}
	f.table.hear(f.member.ID, r)
	if !bytes.Equal(r.Session, f.told) {
		f.told = r.Session
		f.session.learn(r.Session)
	}
	if f.turns("heard") {
		f.log.Info("a member tells its capacity", "version", r.Version, "models", len(r.Models))
	}
	return nil
}

func (f *follower) fail(err error) {
	f.table.fail(f.member.ID, err)
	if f.turns(err.Error()) {
		f.log.Warn("a member cannot be followed", "error", err)
	}
}

// turns reports whether state is another one than the last, so that each change is logged once.
func (f *follower) turns(state string) bool {
	changed := f.state != state
	f.state = state
	return changed
}

// pause reports whether ctx still holds after d.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
