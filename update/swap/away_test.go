package swap_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/update/install"
	"viiwork/update/swap"
)

// TestAwayDockerSaysNothingOfTheVersion: calls fail for a while, and it goes on.
func TestAwayDockerSaysNothingOfTheVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, dir := newDaemon(t), t.TempDir()
		d.begin(dir)
		back := time.Now().Add(time.Minute)
		cfg := d.config(dir)
		cfg.Boxes = away{d, time.Time{}, back}
		d.before = func(int) error {
			if time.Now().Before(back) {
				return errors.New("cannot connect to the Docker daemon")
			}
			return nil
		}
		for run := 1; swap.Run(t.Context(), cfg) != nil; run++ { // each ends after a while, and Docker starts the next
			if run > 3 {
				t.Fatal("it does not come to its end")
			}
		}
		if got := d.names(); !maps.Equal(got, wentForward) {
			t.Errorf("containers %v", got)
		}
	})
}

// TestDockersEndIsNoVerdict: it ends the new container first, then does not answer, and the helper has not been ended yet.
func TestDockersEndIsNoVerdict(t *testing.T) {
	for _, at := range []time.Duration{0, 100 * time.Millisecond, 10 * time.Second, 29900 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			d, dir := newDaemon(t), t.TempDir()
			d.begin(dir)
			cfg, from := d.config(dir), time.Now().Add(at)
			cfg.Boxes = away{d, from.Add(time.Second), from.Add(40 * time.Second)}
			go func() {
				time.Sleep(time.Until(from))
				d.mu.Lock()
				if v := d.find("viiwork"); v != nil {
					v.Running = false
				}
				d.mu.Unlock()
				time.Sleep(41 * time.Second)
				d.mu.Lock()
				if v := d.find("viiwork"); v != nil && !v.stopped {
					v.Running, v.Started = true, time.Now()
				}
				d.mu.Unlock()
			}()
			for run := 1; swap.Run(t.Context(), cfg) != nil; run++ {
				time.Sleep(time.Minute)
				if run > 3 {
					t.Fatal("it does not come to its end")
				}
			}
			got := d.names()
			delete(got, "viiwork.swap") // it could not be removed while Docker was away
			if !maps.Equal(got, wentForward) {
				t.Errorf("at %v: containers %v, %+v", at, got, last(t, dir))
			}
			time.Sleep(time.Minute)
		})
	}
}

// away is a daemon that does not answer for a while.
type away struct {
	*daemon
	from, back time.Time
}

func (a away) LookAt(ctx context.Context, name string) (swap.BoxState, error) {
	if now := time.Now(); !now.Before(a.from) && now.Before(a.back) {
		return swap.BoxState{}, errors.New("cannot connect to the Docker daemon")
	}
	return a.daemon.LookAt(ctx, name)
}

// slowly is a node that takes its time to say how it is.
type slowly struct{ *daemon }

func (s slowly) Look(ctx context.Context) (install.Sight, error) {
	select {
	case <-time.After(7100 * time.Millisecond):
		return s.daemon.Look(ctx)
	case <-ctx.Done():
		return install.Sight{}, ctx.Err()
	}
}

// TestTheEndOfTheTimeHidesNoReason: it comes in the middle of a question, and what was seen before is the reason all the same.
func TestTheEndOfTheTimeHidesNoReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, dir := newDaemon(t), t.TempDir()
		d.begin(dir)
		d.images[newImage] = behaviour{version: "v1.1.0", ready: 1}
		cfg := d.config(dir)
		cfg.Node = func(string, string) install.Node { return slowly{d} }
		if err := swap.Run(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if o := last(t, dir); o.Good || o.Why != "after 2m0s m has 1 of 2 backends" || o.Fault != "" {
			t.Errorf("outcome %+v", o)
		}
	})
}
