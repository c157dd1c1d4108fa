package enginetest

import (
	"context"
	"sync/atomic"
	"time"
)

// loop is the engine's one thread of work, as far as it shows: while a slot is saved or restored nothing else gets on.
type loop struct {
	turn  chan struct{} // holds one while an action on a slot runs
	stood atomic.Int64  // nanoseconds that all such actions have taken
}

func newLoop() *loop { return &loop{turn: make(chan struct{}, 1)} }

// enter begins an action; leave ends it. It is false when a context ended or the server crashed before.
func (l *loop) enter(server, client context.Context, crash <-chan struct{}) bool {
	select {
	case l.turn <- struct{}{}:
		return true
	case <-server.Done():
	case <-client.Done():
	case <-crash:
	}
	return false
}

func (l *loop) leave(began time.Time) {
	l.stood.Add(int64(time.Since(began)))
	<-l.turn
}

// pass waits while an action runs.
func (l *loop) pass(server, client context.Context, crash <-chan struct{}) bool {
	if !l.enter(server, client, crash) {
		return false
	}
	<-l.turn
	return true
}

// standstill is the time all actions have taken so far.
func (l *loop) standstill() time.Duration { return time.Duration(l.stood.Load()) }
