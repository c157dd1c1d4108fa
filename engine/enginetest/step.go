package enginetest

import (
	"context"
	"errors"
	"time"
)

// Why a generation ends before its time.
var (
	errCancelled = errors.New("the client left")
	errDropped   = errors.New("the connection is dropped")
)

// quiet is how long no task at all must have had a result before the server looks whether a client that waits for one
// is still there.
const quiet = time.Second

// cost is the wall time that n tokens take at a rate.
func (g *generation) cost(n int, rate float64) time.Duration {
	d := g.srv.fault.get().Slow
	if rate > 0 {
		d += time.Duration(float64(n) / rate * float64(time.Second))
	}
	return g.srv.scaled(d)
}

// step waits until a point of time, as long as faults freeze the engine, and reports why the work must end. wake ends
// the wait early.
func (g *generation) step(until time.Time, wake <-chan struct{}) error {
	f := &g.srv.fault
	if err := g.await(until, wake); err != nil {
		return err
	}
	if f.get().Silent && !f.wait(g.srv.ctx, context.Background(), isSilent) {
		return errDropped
	}
	select {
	case <-g.srv.ctx.Done():
		return errDropped
	case <-g.crash:
		return errDropped
	default:
	}
	if g.kept != nil && g.kept.isStopped() && g.done == len(g.prompt) {
		return errCancelled
	}
	if g.gone(false) {
		return errCancelled
	}
	return nil
}

// await waits until a point of time, and for as much longer as the loop has stood still since g.stood was set.
func (g *generation) await(until time.Time, wake <-chan struct{}) error {
	for {
		if !g.srv.loop.pass(g.srv.ctx, context.Background(), g.crash) {
			return errDropped
		}
		d := time.Until(until.Add(g.srv.loop.standstill() - g.stood))
		if d <= 0 {
			return nil
		}
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-wake:
			timer.Stop()
			if g.srv.fault.get().Silent {
				return nil // a frozen engine notices nobody
			}
			return errCancelled
		case <-g.srv.ctx.Done():
			timer.Stop()
			return errDropped
		case <-g.crash:
			timer.Stop()
			return errDropped
		}
	}
}

// gone tells whether the server has noticed that its client left: at once when it had something to write to it, else
// only after a while without any result of any task.
func (g *generation) gone(wrote bool) bool {
	if g.kept != nil || g.client.Err() == nil {
		return false
	}
	if wrote {
		return true
	}
	now := time.Now()
	if g.goneAt.IsZero() {
		g.goneAt = now
	}
	last := time.Unix(0, g.srv.lastResult.Load())
	if g.goneAt.After(last) {
		last = g.goneAt
	}
	return now.Sub(last) >= g.srv.scaled(quiet)
}
