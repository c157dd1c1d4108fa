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

// counted is a connection that counts its end.
type counted struct {
	net.Conn
	closed *atomic.Int32
}

func (c *counted) Close() error { c.closed.Add(1); return nil }
