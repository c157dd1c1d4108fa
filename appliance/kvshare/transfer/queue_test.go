package transfer_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/kvshare/transfer"
	"viiwork/appliance/mesh"
)

// wire is one host in memory, for tests with a time of their own.
type wire struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newWire() *wire { return &wire{conns: make(chan net.Conn, 16), closed: make(chan struct{})} }

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error   { w.once.Do(func() { close(w.closed) }); return nil }
func (w *wire) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 8086} }

func (w *wire) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	w.conns <- theirs
	return ours, nil
}

// inMemory is a pair whose mesh is a wire.
func inMemory(t *testing.T, wrong http.Handler, s *states, config func(*transfer.Config)) (asks, has *node) {
	k := keys(t, mesh.KeyConfig{Secret: secret})
	w := newWire()
	has = start(t, "b", plan{keys: k, source: s, wrong: wrong, listen: func() net.Listener { return w }})
	asks = start(t, "a", plan{keys: k, source: s, dial: w.dial, listen: func() net.Listener { return newWire() }, config: func(c *transfer.Config) {
		c.Trusted = nil
		if config != nil {
			config(c)
		}
	}})
	return asks, has
}

func TestAMemberThatStopsMidChunkIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStates(2, 100)
		silent := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte{0, 0, 0, 100, 1, 2, 3})
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		asks, has := inMemory(t, silent, s, nil)
		began := time.Now()
		_, err := asks.client.Fetch(t.Context(), has.Member, s.manifest, s.all(), arrive(t, s).put)
		if err == nil || !strings.Contains(err.Error(), "stopped sending") {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took != transfer.StallFor {
			t.Errorf("it took %s to see it", took)
		}
	})
}

// A disk that takes long is no member that has stopped.
func TestASlowPutIsNotTakenForAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStates(6, 100)
		asks, has := inMemory(t, nil, s, nil)
		a := arrive(t, s)
		a.want = func(int) error { time.Sleep(transfer.StallFor - time.Second); return nil }
		if _, err := asks.client.Fetch(t.Context(), has.Member, s.manifest, s.all(), a.put); err != nil {
			t.Error(err)
		}
		a.isWhole()
	})
}

func TestAtMostTwoTransfersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStates(3, 100)
		asks, has := inMemory(t, nil, s, nil)
		var now, most atomic.Int32
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				a := arrive(t, s)
				a.want = func(i int) error {
					if i == 0 {
						most.Store(max(most.Load(), now.Add(1)))
					}
					time.Sleep(time.Second)
					if i == 2 {
						now.Add(-1)
					}
					return nil
				}
				fetch := asks.client.Fetch
				if i%2 == 1 {
					fetch = asks.client.Copy
				}
				if _, err := fetch(t.Context(), has.Member, s.manifest, s.all(), a.put); err != nil {
					t.Error(err)
				}
				a.isWhole()
			})
		}
		wg.Wait()
		if n := most.Load(); n != 2 {
			t.Errorf("%d at once", n)
		}
	})
}

// Whoever waits for a state is not kept waiting by copies: these give their turn back after each window.
func TestWhatSomebodyWaitsForComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStates(40, transfer.Probe/8)
		asks, has := inMemory(t, nil, s, nil)
		var copies, done sync.WaitGroup
		var copied atomic.Int32
		for range 3 {
			copies.Add(1)
			done.Go(func() {
				a := arrive(t, s)
				a.want = func(int) error { time.Sleep(time.Second); copied.Add(1); return nil }
				if _, err := asks.client.Copy(t.Context(), has.Member, s.manifest, s.all(), a.put); err != nil {
					t.Error(err)
				}
				a.isWhole()
			})
		}
		time.Sleep(5 * time.Second) // two are in their first window, the third waits
		a := arrive(t, s)
		if _, err := asks.client.Fetch(t.Context(), has.Member, s.manifest, s.all(), a.put); err != nil {
			t.Error(err)
		}
		a.isWhole()
		if n := copied.Load(); n > 18 {
			t.Errorf("%d chunks were copied before", n)
		}
		done.Wait()
	})
}

func TestACopyStandsStillWhileRequestsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Bool
		busy.Store(true)
		s := newStates(5, 100)
		asks, has := inMemory(t, nil, s, func(c *transfer.Config) { c.Busy = busy.Load })
		a, b := arrive(t, s), arrive(t, s)
		var copying sync.WaitGroup
		copying.Go(func() {
			if _, err := asks.client.Copy(t.Context(), has.Member, s.manifest, s.all(), a.put); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Hour)
		if a.count() != 0 {
			t.Error("the copy goes on")
		}
		if _, err := asks.client.Fetch(t.Context(), has.Member, s.manifest, s.all(), b.put); err != nil {
			t.Error("what a request waits for stands still, too: ", err)
		}
		busy.Store(false)
		copying.Wait()
		a.isWhole()

		busy.Store(true)
		why := errors.New("the node ends")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(why) })
		if _, err := asks.client.Copy(ctx, has.Member, s.manifest, s.all(), a.put); !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
	})
}

// A turn that comes in the moment in which its taker gives up is not lost.
func TestWhoGivesUpWaitingLeavesTheTurnToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStates(3, 100)
		asks, has := inMemory(t, nil, s, nil)
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i%7)*time.Second)
				defer cancel()
				a := arrive(t, s)
				a.want = func(int) error { time.Sleep(time.Second); return nil }
				_, _ = asks.client.Fetch(ctx, has.Member, s.manifest, s.all(), a.put)
			})
		}
		wg.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 2 {
			wg.Go(func() {
				if _, err := asks.client.Fetch(ctx, has.Member, s.manifest, s.all(), arrive(t, s).put); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

func TestARateIsKept(t *testing.T) {
	for _, sender := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStates(30, 1<<20)
			limit := func(c *transfer.Config) { c.Rate = 2 << 20 }
			k := keys(t, mesh.KeyConfig{Secret: secret})
			w := newWire()
			p := plan{keys: k, source: s, listen: func() net.Listener { return w }}
			q := plan{keys: k, source: s, dial: w.dial, listen: func() net.Listener { return newWire() }, config: func(c *transfer.Config) { c.Trusted = nil }}
			if sender {
				p.config = limit
			} else {
				q.config = func(c *transfer.Config) { c.Trusted = nil; limit(c) }
			}
			has, asks := start(t, "b", p), start(t, "a", q)
			a := arrive(t, s)
			got, err := asks.client.Fetch(t.Context(), has.Member, s.manifest, s.all(), a.put)
			if err != nil {
				t.Fatal(err)
			}
			a.isWhole()
			if got.Took < 14*time.Second || got.Took > 16*time.Second {
				t.Errorf("30 MiB at 2 a second took %s", got.Took)
			}
		})
	}
}

// What a member has yet to get counts until it has it, or has not been heard of for a while.
func TestTheSenderKnowsWhatItHasYetToSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStates(40, 1<<20)
		s.asked = func(_ int, b []byte) ([]byte, error) { time.Sleep(100 * time.Millisecond); return b, nil }
		asks, has := inMemory(t, nil, s, nil)
		a := arrive(t, s)
		a.want = func(i int) error {
			if bps, left := has.client.Sends(); i == 30 && (bps < 8e6 || bps > 12e6 || left < time.Second || left > 4*time.Second) {
				t.Errorf("with 10 of 40 MiB to go: %.0f bytes a second, %s", bps, left)
			}
			if i == 35 {
				return errors.New("enough")
			}
			return nil
		}
		_, _ = asks.client.Fetch(t.Context(), has.Member, s.manifest, s.all(), a.put)
		time.Sleep(time.Minute)
		if _, left := has.client.Sends(); left != 0 {
			t.Errorf("a minute after it broke off: %s", left)
		}
	})
}

// Both ends hold their memory down while a state goes over a tailnet, and no longer.
func TestTheMemoryLimitComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := debug.SetMemoryLimit(-1)
		s := newStates(6, 100)
		asks, has := inMemory(t, nil, s, func(c *transfer.Config) { c.Tailnet = true })
		a := arrive(t, s)
		a.want = func(int) error {
			time.Sleep(2 * time.Second)
			if now := debug.SetMemoryLimit(-1); now >= before || now < 128<<20 {
				t.Errorf("meanwhile it is %d", now)
			}
			return nil
		}
		for range 2 {
			if _, err := asks.client.Fetch(t.Context(), has.Member, s.manifest, s.all(), a.put); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		if now := debug.SetMemoryLimit(-1); now != before {
			t.Errorf("it was %d and is %d", before, now)
		}
	})
}

func TestTheFasterPathIsFoundByUsingBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r transfer.Roads
		const large, small = 1 << 30, 1 << 20
		if !r.Direct(small) || !r.Direct(large) || r.Window(true, large) != transfer.Probe {
			t.Error("the direct path is not tried first, with little")
		}
		r.Measured(true, 1000, time.Nanosecond)
		if r.Window(true, large) != transfer.Probe {
			t.Error("a few bytes were taken for a measure")
		}
		r.Measured(true, 10<<20, time.Second)
		if r.Direct(large) || !r.Direct(small) {
			t.Error("the mesh's own is tried only if there is much to fetch")
		}
		r.Measured(false, 20<<20, time.Second)
		if r.Direct(large) || r.Direct(small) {
			t.Error("the mesh's own is twice as fast and not taken")
		}
		if w := r.Window(false, large); w != 20<<20 {
			t.Errorf("a second of it is %d", w)
		}
		if w := r.Window(false, 8<<20); w != 8<<20 {
			t.Errorf("more than the most: %d", w)
		}
		for range 20 {
			r.Measured(false, 2<<20, time.Second)
		}
		if !r.Direct(large) {
			t.Error("it has become slow and is taken still")
		}
		time.Sleep(transfer.Remeasure + time.Second)
		if w := r.Window(true, large); w != transfer.Probe {
			t.Errorf("the fast path is measured anew with %d", w)
		}
		if w := r.Window(false, large); w < 1<<20 || w > 3<<19 {
			t.Errorf("a path of 2 MiB a second is measured anew with %d", w)
		}
		r.Measured(true, 10<<20, time.Second)
		if r.Direct(large) {
			t.Error("what is not used is not measured again")
		}
	})
}

// Over a network in which the mesh's own path is slow, most of a state comes directly, and little is spent on finding out.
func TestMostComesByTheFasterPath(t *testing.T) {
	s := newStates(64, 1<<20)
	port := freePort(t)
	k := keys(t, mesh.KeyConfig{Secret: secret})
	var slow atomic.Int64
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &slowConn{c, &slow}, err
	}
	asks := start(t, "a", plan{keys: k, source: s, dial: dial})
	has := start(t, "b", plan{keys: k, source: s, direct: port})
	awaitDirect(t, port)
	a := arrive(t, s)
	got, err := asks.client.Fetch(within(t), has.Member, s.manifest, s.all(), a.put)
	if err != nil {
		t.Fatal(err)
	}
	a.isWhole()
	if got.Path != "direct" || slow.Load() < transfer.Probe || slow.Load() > transfer.Probe+1<<20 {
		t.Errorf("%+v, %d by the mesh", got, slow.Load())
	}
}

// slowConn reads 1 MiB a second: a direct path is faster by far, also where others have the processors.
type slowConn struct {
	net.Conn
	read *atomic.Int64
}

func (c *slowConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b[:min(len(b), 64<<10)])
	time.Sleep(time.Duration(n) * time.Second / (1 << 20))
	c.read.Add(int64(n))
	return n, err
}
