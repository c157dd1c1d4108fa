package appliance_test

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"viiwork/engine/enginetest"
)

// TestKilledNodeCostsOnlyWhatItHadBegun: kill -9 of one of three under load. What had not begun is answered elsewhere.
func TestKilledNodeCostsOnlyWhatItHadBegun(t *testing.T) {
	engines := make([]*enginetest.Server, 3)
	all := lanFellows(t, 3, func(i int) []string {
		engines[i] = fakeEngine(t, enginetest.Options{Slots: 4, Model: "m", DecodeTPS: 100})
		return []string{served("m", engines[i].URL(), 4)}
	})
	for _, f := range all {
		f.spawn(t)
	}
	entry, victim := all[0], all[2]
	holds(t, "three nodes serve", func() bool { return entry.sees("m") == 3 && all[1].sees("m") == 3 })

	var (
		clients             sync.WaitGroup
		mu                  sync.Mutex
		answered, cut, late int
		over                = make(chan struct{})
	)
	for c := range 16 { // more than have a slot
		clients.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				got := all[c%2].chat("", question("m", fmt.Sprint(c, " ", i), 30, true))
				mu.Lock()
				switch {
				case got.complete(true):
					answered++
				case got.begun && got.header.Get("X-Viiwork-Node") == victim.name:
					cut++
				default:
					late++
					t.Errorf("lost: %d, node %q, %v: %.300s", got.status, got.header.Get("X-Viiwork-Node"), got.err, got.body)
				}
				mu.Unlock()
			}
		})
	}
	holds(t, "the victim is at work", func() bool { return engines[2].Stats().Active > 0 })
	victim.kill()
	killed := time.Now()
	// The longest look: a node that stands still answers nobody, and does not take it for silence of the others.
	var longest time.Duration
	until := func(what string, look func() (still, done bool)) (last time.Time) { // a look began and still saw it: looking takes long itself, where all are busy
		last = killed
		holds(t, what, func() bool {
			began := time.Now()
			still, done := look()
			longest = max(longest, time.Since(began))
			if still {
				last = began
			}
			return done
		})
		return last
	}
	routed := until("it is out of routing", func() (still, done bool) {
		one, two := entry.sees("m"), all[1].sees("m")
		return one == 3 || two == 3, one == 2 && two == 2
	}).Sub(killed)
	allowed := 4*time.Second + longest // 3 s, and what a busy machine adds
	noticed := until("gossip has noticed", func() (still, done bool) {
		s := entry.member(victim.name)
		return s == "alive" || s == "silent", s == "failed" || s == "left"
	}).Sub(killed)
	close(over)
	clients.Wait()
	t.Logf("out of routing after %.1f s, out of gossip after %.1f s (%s); %d requests answered, %d had begun at it and were told, %d lost",
		routed.Seconds(), noticed.Seconds(), entry.member(victim.name), answered, cut, late)
	if routed > allowed {
		t.Errorf("out of routing after %s, allowed are %s", routed, allowed)
	}
	if noticed > 15*time.Second {
		t.Errorf("out of gossip after %s", noticed)
	}
	if engines[2].Stats().Served == 0 && cut == 0 {
		t.Error("the victim had no request, so nothing was shown")
	}
}

// TestFrozenNodeHoldsNobodyUp: SIGSTOP of one of two under 24 requests. All are answered, about as soon as the other
// node alone does it, and the 3 s it takes to tell frozen from slow.
func TestFrozenNodeHoldsNobodyUp(t *testing.T) {
	engines := make([]*enginetest.Server, 2)
	all := lanFellows(t, 2, func(i int) []string {
		engines[i] = fakeEngine(t, enginetest.Options{Slots: 4, Model: "m", DecodeTPS: 100})
		return []string{served("m", engines[i].URL(), 4)}
	})
	crowd := func(during func()) time.Duration {
		begun := time.Now()
		var clients sync.WaitGroup
		for i := range 24 {
			clients.Go(func() {
				if got := all[0].chat("", question("m", fmt.Sprint(begun, i), 60, false)); !got.complete(false) {
					t.Errorf("request %d: %d %v %.300s", i, got.status, got.err, got.body)
				}
			})
		}
		during()
		clients.Wait()
		return time.Since(begun)
	}
	all[0].spawn(t)
	holds(t, "one node serves", func() bool { return all[0].sees("m") == 1 })
	alone := crowd(func() {})
	all[1].spawn(t)
	holds(t, "two nodes serve", func() bool { return all[0].sees("m") == 2 })
	frozen := crowd(func() {
		holds(t, "the other is at work", func() bool { return engines[1].Stats().Active > 0 })
		all[1].signal(syscall.SIGSTOP)
	})
	t.Logf("24 requests: %.2f s at one node alone, %.2f s with a frozen one beside it: %.2f s of the %.2f s allowed", alone.Seconds(), frozen.Seconds(),
		frozen.Seconds(), 1.2*alone.Seconds()+3)
	if frozen > 3*alone+10*time.Second {
		t.Errorf("%s, and alone %s", frozen, alone)
	}
}

// TestEachRequestRunsOnce: 200 at a time through three entries; the engines' own books tell how often each ran.
func TestEachRequestRunsOnce(t *testing.T) {
	t.Parallel()
	engines := make([]*enginetest.Server, 3)
	all := lanFellows(t, 3, func(i int) []string {
		engines[i] = fakeEngine(t, enginetest.Options{Slots: 4, Model: "m", DecodeTPS: 400, KeepBodies: true, KeepRequests: 1 << 12})
		return []string{served("m", engines[i].URL(), 4)}
	})
	for _, f := range all {
		f.more = "routing: {queue_max: 256, queue_timeout: 60s}\n"
		f.here(t)
	}
	holds(t, "three nodes serve", func() bool { return all[0].sees("m") == 3 && all[1].sees("m") == 3 && all[2].sees("m") == 3 })
	const n = 200
	var clients sync.WaitGroup
	for i := range n {
		clients.Go(func() {
			if got := all[i%3].chat("", question("m", fmt.Sprintf("request %03d", i), 20, i%2 == 0)); !got.complete(i%2 == 0) {
				t.Errorf("request %d: %d %v %.300s", i, got.status, got.err, got.body)
			}
		})
	}
	clients.Wait()
	ran := map[string]int{}
	for i, e := range engines {
		if s := e.Stats(); s.Oversubscribed > 0 || s.Failed > 0 || s.Cancelled > 0 {
			t.Errorf("engine %d: %+v", i, s)
		}
		t.Logf("engine %d ran %d", i, e.Stats().Served)
		for _, r := range e.Requests() {
			if text := textOf(r.Body); strings.HasPrefix(text, "request ") { // a node looks whether its engine works, too
				ran[text]++
			}
		}
	}
	for i := range n {
		if text := fmt.Sprintf("request %03d", i); ran[text] != 1 {
			t.Errorf("%s ran %d times", text, ran[text])
		}
	}
	if len(ran) != n {
		t.Errorf("%d different requests ran, want %d", len(ran), n)
	}
}

// TestTwentyNodes: each of twenty tells of all twenty models within seconds.
func TestTwentyNodes(t *testing.T) {
	all := twenty(t, true)
	begun := time.Now()
	var leave []func() error
	for _, f := range all {
		leave = append(leave, f.here(t))
	}
	defer together(t, leave)
	started := time.Since(begun)
	for _, f := range all {
		holds(t, f.name+" lists every model", func() bool { return len(f.hosts()) == len(all) })
	}
	whole := time.Since(begun)
	t.Logf("twenty nodes in one process: the last listens after %.2f s, all lists complete after %.2f s", started.Seconds(), whole.Seconds())
}

// together ends nodes at one time: each takes seconds to say goodbye.
func together(t testing.TB, leave []func() error) {
	var all sync.WaitGroup
	for _, end := range leave {
		all.Go(func() {
			if err := end(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// twenty nodes with a model of their own each; seeded, they know each other.
func twenty(t testing.TB, seeded bool) []*fellow {
	all := lanFellows(t, 20, func(i int) []string {
		name := fmt.Sprintf("m%02d", i)
		e := fakeEngine(t, enginetest.Options{Slots: 2, Model: name})
		return []string{served(name, e.URL(), 2)}
	})
	for _, f := range all {
		if !seeded {
			f.seeds = nil
		}
	}
	return all
}
