package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

// chaos is a desk with entries between which and it everything may get lost.
type chaos struct {
	*loft
	t       *testing.T
	desk    *mesh.Desk[*loan]
	table   *mesh.Table
	entries []*lossy
	ops     atomic.Int64
	tally   [8]atomic.Int64
	answers sync.WaitGroup
}

const (
	didAsk = iota
	didRedeem
	didLapse
	didReturn
	didCancel
	didRefuse
	didRestart
	didLose
)

// lossy is an entry of many workers, each with one request at a time. Its life changes when it is started anew: what it
// had is then forgotten, and nobody told.
type lossy struct {
	*direct
	id     string
	mu     sync.Mutex
	life   int
	silent bool
}

func (e *lossy) now() (life int, silent bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.life, e.silent
}

// did counts an operation.
func (c *chaos) did(what int) {
	c.tally[what].Add(1)
	c.ops.Add(1)
}

func chance(percent int) bool { return rand.IntN(100) < percent }

func upTo(d time.Duration) time.Duration { return rand.N(d) }

// work does one request of e, with whatever goes wrong on its way.
func (c *chaos) work(e *lossy) {
	time.Sleep(upTo(time.Second))
	life, silent := e.now()
	if silent || chance(5) { // or the ask is lost
		return
	}
	ask := mesh.Ask{Model: "m", WaitMS: rand.Int64N(4000), Session: "s"}
	switch rand.IntN(10) {
	case 0:
		ask.Backends = []string{"a"}
	case 1:
		ask.Backends, ask.Prefer = []string{"b", "a"}, "b"
	case 2:
		ask.WaitMS = 0
	}
	body := fmt.Sprintf(`{"model":"m","wait_ms":%d,"prefer":%q}`, ask.WaitMS, ask.Prefer)
	if len(ask.Backends) > 0 {
		body = strings.Replace(body, "{", `{"backends":["`+strings.Join(ask.Backends, `","`)+`"],`, 1)
	}
	c.did(didAsk)
	a := e.serve(e.request("POST", "/v1/lease", body))
	c.answers.Go(func() { <-a.done })
	patience := 5 * time.Second
	if chance(15) {
		patience = upTo(2 * time.Second)
	}
	select {
	case <-a.done:
	case <-time.After(patience):
	}
	switch nowLife, silent := e.now(); {
	case nowLife != life || silent: // who asked is no more
		return
	case !a.ended() && patience == 5*time.Second:
		c.t.Errorf("an ask for %d ms has no answer: %s", ask.WaitMS, a.body())
		a.leave()
	case !a.ended():
		c.did(didCancel)
		a.leave()
	case a.lease() == "":
		if a.status() == 403 {
			c.t.Errorf("an honest ask was turned away: %s", a.body())
		}
		c.did(didRefuse)
	case chance(10): // the answer is lost
	default:
		c.use(e, life, a.lease())
	}
}

// use does what an entry does with a seat that it was granted.
func (c *chaos) use(e *lossy, life int, lease string) {
	if chance(10) {
		time.Sleep(upTo(3 * time.Second)) // it may lapse
	}
	if nowLife, silent := e.now(); nowLife != life || silent || chance(8) { // or the forward is lost
		return
	}
	if chance(10) {
		if chance(70) { // or the return is lost
			c.did(didReturn)
			a := e.serve(e.request("DELETE", "/v1/lease/"+lease, ""))
			<-a.done
		}
		return
	}
	for _, other := range c.entries {
		if other != e {
			if _, ok := c.desk.Redeem(other.id, lease, "m"); ok {
				c.t.Error("a lease was redeemed by another entry")
			}
		}
	}
	seat, ok := c.desk.Redeem(e.id, lease, "m")
	if !ok {
		c.did(didLapse)
		return
	}
	c.did(didRedeem)
	if _, again := c.desk.Redeem(e.id, lease, "m"); again {
		c.t.Error("a lease was redeemed twice")
	}
	defer seat.Release()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer c.desk.Bind(e.id, cancel)()
	select {
	case <-time.After(upTo(300 * time.Millisecond)):
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), mesh.ErrEntryLost) {
			c.t.Error("a forward ended with", context.Cause(ctx))
		}
	}
}

// fate starts entries anew, and lets some be silent before, some of them for so long that they are lost.
func (c *chaos) fate(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(upTo(10 * time.Second)):
		}
		e := c.entries[rand.IntN(len(c.entries))]
		e.mu.Lock()
		e.silent = chance(50)
		silent := e.silent
		e.life++
		e.mu.Unlock()
		c.did(didRestart)
		if silent {
			if d := upTo(20 * time.Second); d > 11*time.Second {
				c.did(didLose)
				time.Sleep(d)
			} else {
				time.Sleep(d)
			}
			e.mu.Lock()
			e.silent = false
			e.mu.Unlock()
		}
	}
}

// pulse lets the owner hear those who live.
func (c *chaos) pulse(done <-chan struct{}) {
	for range time.Tick(500 * time.Millisecond) {
		select {
		case <-done:
			return
		default:
		}
		mesh.Beat(c.table)
		for _, e := range c.entries {
			if _, silent := e.now(); !silent {
				mesh.Hear(c.table, e.id, &mesh.Report{})
			}
		}
	}
}

func TestNoSeatIsLostOrDoubledWhateverIsLostOnTheWay(t *testing.T) {
	const entries, workers, operations = 5, 9, 100_000
	synctest.Test(t, func(t *testing.T) {
		l := newLoft(t, 64, 6, "a", "b")
		k := keys(t, mesh.KeyConfig{Secret: secret})
		owner := newNode(t, member(9), k, nil)
		owner.verifier = mesh.NewVerifier(mesh.VerifierConfig{ID: owner.ID, Keys: k})
		owner.table = mesh.NewTable(0)
		c := &chaos{loft: l, t: t, desk: newDesk(owner, l), table: owner.table}
		var all []mesh.Member
		for i := range entries {
			all = append(all, member(i+1))
			c.entries = append(c.entries, &lossy{direct: newDirect(t, c.desk, k, member(i+1).ID), id: member(i + 1).ID})
		}
		mesh.Beat(c.table)
		mesh.Fill(c.table, all, capacity(1))
		ctx, cancel := context.WithCancel(context.Background())
		var around, working sync.WaitGroup
		around.Go(func() { check(t, c.desk.Run(ctx)) })
		around.Go(func() { c.pulse(ctx.Done()) })
		begin, done := time.Now(), make(chan struct{})
		around.Go(func() { c.fate(done) })
		for _, e := range c.entries {
			for range workers {
				working.Go(func() {
					for c.ops.Load() < operations && !t.Failed() {
						c.work(e)
					}
				})
			}
		}
		working.Wait()
		close(done)
		c.answers.Wait() // each ends, also those whom nobody waits for
		time.Sleep(mesh.LostAfter)
		synctest.Wait()
		if held, waiting := l.state(); held != 0 || waiting != 0 {
			t.Errorf("in the end %d seats are held and %d wait", held, waiting)
		}
		if open, claims := c.desk.Open(); open != 0 || claims != 0 {
			t.Errorf("in the end the desk knows %d entries and %d claims", open, claims)
		}
		n := func(what int) int64 { return c.tally[what].Load() }
		t.Logf("%d operations in %v of simulated time: %d asks, %d redeemed, %d came too late, %d returned, %d cancelled, %d refused, %d restarts, %d of them lost",
			c.ops.Load(), time.Since(begin).Round(time.Second), n(didAsk), n(didRedeem), n(didLapse), n(didReturn), n(didCancel), n(didRefuse), n(didRestart), n(didLose))
		cancel()
		around.Wait()
	})
}
