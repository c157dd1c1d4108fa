package mesh

import (
	"sync"
	"sync/atomic"
	"time"
)

// maxNap is how long the table may go without its beat and still count the time: the rest the process stood still, as a
// machine that sleeps or has no CPU left does. What others said meanwhile lies unread, and it is not they who were silent.
const maxNap = 2 * reconcileEvery

// awakeClock tells the time without that in which this process stood still. Before its first beat it tells all of it.
type awakeClock struct{ last atomic.Pointer[wake] }

// wake is one beat: when it was, and how much was not counted before.
type wake struct {
	at   time.Time
	lost time.Duration
}

// now tells the time. It runs on for maxNap after a beat.
func (c *awakeClock) now() time.Time {
	now := time.Now()
	w := c.last.Load()
	if w == nil {
		return now
	}
	return now.Add(-w.lost - max(0, now.Sub(w.at)-maxNap))
}

// beat says that the process is awake. One goroutine at a time may.
func (c *awakeClock) beat() {
	now := time.Now()
	next := &wake{at: now}
	if w := c.last.Load(); w != nil {
		next.lost = w.lost + max(0, now.Sub(w.at)-maxNap)
	}
	c.last.Store(next)
}

// awakeTimer calls do once its time has passed by the clock.
type awakeTimer struct {
	clock *awakeClock
	do    func()

	mu    sync.Mutex
	due   time.Time
	timer *time.Timer // nil = stopped
}

func (c *awakeClock) after(d time.Duration, do func()) *awakeTimer {
	t := &awakeTimer{clock: c, do: do, due: c.now().Add(d)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(d, t.look)
	return t
}

func (t *awakeTimer) look() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer == nil {
		return
	}
	if left := t.due.Sub(t.clock.now()); left > 0 {
		t.timer.Reset(left)
		return
	}
	t.do()
}

// reset begins anew.
func (t *awakeTimer) reset(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.due = t.clock.now().Add(d)
		t.timer.Reset(d)
	}
}

func (t *awakeTimer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
}
