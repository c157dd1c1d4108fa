package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
)

const (
	// askEvery is how often members are asked while somebody looks, and lookFor how long after the last look that goes on.
	askEvery = time.Second
	lookFor  = 10 * time.Second
	askFor   = 2 * time.Second // one answer
	askMost  = 8               // at one time
	// freshFor is how long an answer is shown. Older figures are none.
	freshFor = 5 * time.Second
	maxView  = 4 << 20 // bytes
	// firstLook is how long somebody who looks first waits for members.
	firstLook = 400 * time.Millisecond
)

// told is what a member has told of itself.
type told struct {
	status.View
	at   time.Time      // here
	skew *time.Duration // its clock ahead of this one's; nil = not known
}

// skewed tells how far ahead a clock is that showed a time at a moment here, to half a second. It stays what it was while it is
// about that: whatever else is reckoned from it would change with every answer.
func (t told) skewed(theirs, here time.Time) *time.Duration {
	if theirs.IsZero() {
		return nil
	}
	skew := theirs.Sub(here).Round(500 * time.Millisecond)
	if t.skew != nil && (skew-*t.skew).Abs() <= 500*time.Millisecond {
		return t.skew
	}
	return &skew
}

// views asks members for what only they know, as long as somebody looks. Its Run is the only one that asks.
type views struct {
	members func() []mesh.Member // the others that live
	get     func(ctx context.Context, m mesh.Member, again bool) (status.View, error)
	log     *slog.Logger
	wake    chan struct{} // holds one: somebody looks who has not for long

	mu     sync.Mutex // guards what follows
	of     map[string]told
	asking map[string]bool
	looked time.Time
	round  chan struct{} // closed once those asked by the next round have answered
}

func newViews(members func() []mesh.Member, get func(context.Context, mesh.Member, bool) (status.View, error), log *slog.Logger) *views {
	return &views{
		members: members, get: get, log: log, wake: make(chan struct{}, 1),
		of: map[string]told{}, asking: map[string]bool{}, round: make(chan struct{}),
	}
}

// Run asks until ctx ends.
func (v *views) Run(ctx context.Context) error {
	var asked sync.WaitGroup
	defer asked.Wait()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	limit := make(chan struct{}, askMost)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-v.wake:
		}
		v.mu.Lock()
		wanted := time.Since(v.looked) < lookFor
		over := v.round
		if wanted {
			v.round = make(chan struct{})
		}
		v.mu.Unlock()
		if !wanted {
			continue
		}
		var round sync.WaitGroup
		for _, m := range v.members() {
			if !v.begin(m.ID) {
				continue
			}
			asked.Add(1)
			round.Go(func() {
				defer asked.Done()
				v.ask(ctx, m, limit)
			})
		}
		asked.Go(func() { round.Wait(); close(over) })
	}
}

// begin notes that a member is being asked, false if it still is.
func (v *views) begin(id string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.asking[id] {
		return false
	}
	v.asking[id] = true
	return true
}

func (v *views) ask(ctx context.Context, m mesh.Member, limit chan struct{}) {
	defer func() {
		v.mu.Lock()
		delete(v.asking, m.ID)
		v.mu.Unlock()
	}()
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	select {
	case limit <- struct{}{}:
		defer func() { <-limit }()
	case <-ctx.Done():
		return
	}
	before := v.last(m.ID)
	begun := time.Now()
	view, err := v.get(ctx, m, len(before) > 0)
	if err != nil {
		v.log.Debug("asking a member what its pages show", "member", m.Name, "error", err)
		return
	}
	view.Requests = withEarlier(view.Requests, before)
	now := time.Now()
	middle := begun.Add(now.Sub(begun) / 2)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.of[m.ID] = told{View: view, at: now, skew: v.of[m.ID].skewed(view.Time, middle)}
}

// last is what a member has told of requests, if it did lately.
func (v *views) last(id string) []status.Request {
	v.mu.Lock()
	defer v.mu.Unlock()
	if t := v.of[id]; time.Since(t.at) < freshFor {
		return t.Requests
	}
	return nil
}

// withEarlier adds the ended requests of an answer before, as many as a first answer has.
func withEarlier(now, before []status.Request) []status.Request {
	known := map[string]bool{}
	ended := 0
	for _, r := range now {
		known[r.ID] = true
		if r.State == "done" {
			ended++
		}
	}
	for _, r := range before {
		if r.State == "done" && !known[r.ID] && ended < shownEnded {
			now = append(now, r)
			ended++
		}
	}
	return now
}

// look tells what members have told lately, by id. Who looks first for a while waits for them a moment.
func (v *views) look(ctx context.Context) map[string]told {
	v.mu.Lock()
	first := time.Since(v.looked) >= freshFor
	v.looked = time.Now()
	round := v.round
	v.mu.Unlock()
	if first {
		select {
		case v.wake <- struct{}{}:
		default:
		}
		patience := time.NewTimer(firstLook)
		defer patience.Stop()
		select {
		case <-round:
		case <-patience.C:
		case <-ctx.Done():
		}
	}
	fresh := map[string]told{}
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, t := range v.of {
		if time.Since(t.at) < freshFor {
			fresh[id] = t
		} else {
			delete(v.of, id)
		}
	}
	return fresh
}

// asked is a question to a member.
type asked struct {
	of   mesh.Member
	path string
	q    url.Values
}

// notTold is a member that answers something else; an older one has no such path.
type notTold struct{ status int }

func (e *notTold) Error() string { return fmt.Sprintf("the member answers %d", e.status) }

// ask reads what a member tells into v. It is cut to what a node can have.
func ask(ctx context.Context, client *mesh.Client, what asked, v any) error {
	resp, err := client.Get(ctx, what.of, what.path, what.q)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return &notTold{resp.StatusCode}
	}
	body, err := client.ReadSigned(resp, maxView)
	if err != nil {
		return err
	}
	if json.Unmarshal(body, v) != nil {
		return errors.New("reading its answer: it is no JSON of the kind expected") // its bytes are a stranger's
	}
	cut(v)
	return nil
}
