package tsnode_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/tsnode"
)

// TestALostDialIsTriedAgainElsewhere: the other side forgets nothing sooner for being asked again from the same port.
func TestALostDialIsTriedAgainElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries, closed atomic.Int32
		began := time.Now()
		c, err := tsnode.DialAgain(t.Context(), func(ctx context.Context) (net.Conn, error) {
			switch tries.Add(1) {
			case 1:
				<-ctx.Done() // nobody answers
				return nil, ctx.Err()
			case 2:
				time.Sleep(4 * time.Second) // it comes, and too late
				return &counted{closed: &closed}, nil
			}
			return &counted{closed: &closed}, nil
		})
		if err != nil || tries.Load() != 3 || time.Since(began) > 5*time.Second || closed.Load() != 0 {
			t.Fatalf("after %s and %d tries: %v, %d closed", time.Since(began), tries.Load(), err, closed.Load())
		}
		time.Sleep(10 * time.Second)
		if closed.Load() != 1 {
			t.Errorf("%d of 1 late connections are closed", closed.Load())
		}
		c.Close()
	})
}

// TestADialThatIsAnsweredIsOne, and one that nobody waits for ends.
func TestADialThatIsAnsweredIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("refused")
		tries := 0
		_, err := tsnode.DialAgain(t.Context(), func(context.Context) (net.Conn, error) {
			tries++
			time.Sleep(time.Second)
			return nil, refused
		})
		time.Sleep(10 * time.Second)
		if !errors.Is(err, refused) || tries != 1 {
			t.Errorf("%v after %d tries", err, tries)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		_, err = tsnode.DialAgain(ctx, func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() })
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// TestADeviceThatEndsWaitsForItsDials: those that are waited for, those that are too late, and nobody begins another.
func TestADeviceThatEndsWaitsForItsDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, closed atomic.Int32
		slow := func(ctx context.Context) (net.Conn, error) {
			running.Add(1)
			defer running.Add(-1)
			<-ctx.Done()
			time.Sleep(time.Second) // to let go takes a moment
			return &counted{closed: &closed}, nil
		}
		d := tsnode.NewDials()
		said := make(chan error, 1)
		go func() {
			_, err := d.Again(context.Background(), slow)
			said <- err
		}()
		time.Sleep(2 * time.Second) // two tries run
		if n := running.Load(); n != 2 {
			t.Fatalf("%d tries run", n)
		}
		began := time.Now()
		d.End()
		if n := running.Load(); n != 0 || closed.Load() != 2 || time.Since(began) != time.Second {
			t.Errorf("after %s %d tries run on, and %d late connections are closed", time.Since(began), n, closed.Load())
		}
		if err := <-said; !errors.Is(err, tsnode.ErrNotUp) {
			t.Error(err)
		}
		if _, err := d.Again(context.Background(), slow); !errors.Is(err, tsnode.ErrNotUp) || running.Load() != 0 {
			t.Errorf("%v, and %d tries run", err, running.Load())
		}
	})
}

// counted is a connection that counts its end.
type counted struct {
	net.Conn
	closed *atomic.Int32
}

func (c *counted) Close() error { c.closed.Add(1); return nil }
