package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"viiwork/appliance/route/sim"
)

// agent is one client: it asks, waits for the answer, thinks, asks again with a longer history.
type agent struct {
	*swarm
	named  bool
	rng    *rand.Rand // of entries, text and pauses; the course has its own
	course *sim.Course

	talk    talk
	session int
	turns   int  // of the session
	had     int  // tokens of the session so far
	last    Turn // of the session, that was answered
	failed  int  // turns in a row
}

const (
	mostFailures = 3 // of one turn, then the session is given up
	afterFailure = time.Second
)

// run plays until the run ends or the agent has had its turns.
func (a *agent) run(ctx context.Context) {
	a.talk = talk{rng: a.rng, gauge: a.gauge}
	t := a.course.Begin()
	t.Think = a.rng.Float64() * 10 * a.cfg.Think // they do not all come at once
	for played := 0; a.cfg.Turns == 0 || played < a.cfg.Turns; played++ {
		if !sleep(ctx, time.Duration(t.Think*float64(time.Second))) {
			return
		}
		a.prepare(t)
		row, got, err := a.turn(ctx, t)
		if ctx.Err() != nil {
			return // cut off by the end: it says nothing about the fleet
		}
		a.tell(row)
		if err != nil {
			t = a.after(err, t)
			continue
		}
		t = a.course.Next(a.answered(row, got))
	}
}

// prepare brings the conversation to where the turn asks.
func (a *agent) prepare(t sim.Turn) {
	switch {
	case a.failed > 0:
		return // it stands as it was
	case t.Kind == sim.First:
		a.session = a.begun()
		a.turns, a.had, a.last = 0, 0, Turn{}
		a.talk.begin(a.head)
	case t.Kind == sim.Rewritten:
		a.talk.begin(a.head)
	}
	a.talk.say(t.Added)
}

// turn tries until there is an answer, or a reason why there will be none. Every refusal is waited for as it says.
func (a *agent) turn(ctx context.Context, t sim.Turn) (Turn, answer, error) {
	a.turns++
	begun := time.Now()
	row := Turn{At: begun.Sub(a.start), Session: a.session, Nr: a.turns, Kind: t.Kind.String(), Named: a.named,
		Prompt: -1, Cached: -1, Output: -1, Had: a.had, Queue: -1}
	key := ""
	if a.named {
		key = fmt.Sprintf("bench-%s-%d", a.id, a.session)
	}
	for {
		row.Entry = a.entry()
		tried := time.Now()
		got, err := a.client.ask(ctx, row.Entry, key, question{Model: a.cfg.Model, Messages: a.talk.messages, Stream: true,
			StreamOptions: map[string]bool{"include_usage": true}, MaxTokens: t.Output, IgnoreEOS: true})
		var no refusal
		if errors.As(err, &no) && no.busy() && row.Refusals < maxRefusals {
			row.Refusals++
			sleep(ctx, no.pause+time.Duration(a.rng.Float64()*float64(no.pause)/4))
			if ctx.Err() == nil {
				continue
			}
		}
		row.Took = time.Since(begun)
		if err != nil {
			row.Error = err.Error()
			return row, got, err
		}
		row.TTFT = tried.Sub(begun) + got.first
		row.Node, row.Backend, row.Route, row.Key, row.Queue = got.node, got.backend, got.route, got.key, got.queue
		row.Prompt, row.Cached, row.Output = got.prompt, got.cached, got.output
		row.Moved = row.moved(a.last)
		return row, got, nil
	}
}

// entry is where the next try comes in.
func (a *agent) entry() string {
	if a.cfg.Single {
		return a.cfg.Entries[0]
	}
	return a.cfg.Entries[a.rng.IntN(len(a.cfg.Entries))]
}

// answered goes on from an answer, and returns the tokens of the session. An entry that says too few, or nothing, must not
// make it grow for ever.
func (a *agent) answered(row Turn, got answer) int {
	if row.Prompt > 0 {
		a.gauge.saw(a.talk.size, row.Prompt)
	}
	a.had = max(row.Prompt, int(float64(a.talk.size)/mostRatio)) + max(0, row.Output)
	a.talk.heard(got.text)
	a.failed, a.last = 0, row
	return a.had
}

// after is what comes after a turn without an answer: the same again, or another session.
func (a *agent) after(err error, t sim.Turn) sim.Turn {
	var no refusal
	refused := errors.As(err, &no)
	if a.failed++; a.failed >= mostFailures || refused && (no.busy() || no.status < 500) {
		a.failed = 0
		t = a.course.Begin()
	}
	t.Think = max(t.Think, afterFailure.Seconds())
	return t
}

// sleep waits, and reports whether it could.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
