//go:build linux

package faults_test

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

const (
	// longWait is how long anything may take that is awaited here: much longer than it does.
	longWait = 90 * time.Second
	// lookEvery is how often nodes are asked how they see the others.
	lookEvery = 50 * time.Millisecond
)

// bench is five machines, two in the west and three in the east.
type bench struct {
	net *network
	all []*machine

	mu   sync.Mutex // guards what follows
	sees string     // who saw whom last that should be gone
}

func newBench(t *testing.T) *bench {
	b := &bench{net: newNetwork(t)}
	var seeds []string
	for _, i := range []int{0, 2} { // one on each side
		seeds = append(seeds, fmt.Sprintf("%s:7946", host(i)))
	}
	for i, side := range []string{"west", "west", "east", "east", "east"} {
		m := &machine{
			name: fmt.Sprintf("m%d", i), dir: t.TempDir(), slots: 2, access: lanAccess(host(i), 8086, 7946, seeds),
			url: "http://" + host(i) + ":8086", books: fmt.Sprintf("10.78.%d.2:9000", i), cable: b.net.lay(t, i, side),
		}
		b.all = append(b.all, m)
		m.start(t)
	}
	return b
}

// everyone tells whether it holds of all of them, asked at one time.
func everyone(all []*machine, holds func(*machine) bool) bool {
	var asked sync.WaitGroup
	no := make(chan struct{}, len(all))
	for _, m := range all {
		asked.Go(func() {
			if !holds(m) {
				no <- struct{}{}
			}
		})
	}
	asked.Wait()
	return len(no) == 0
}

// until waits until it holds, and returns how long after since it was last seen not to. A time that is asserted is then
// one that was surely passed, however late we look.
func until(t *testing.T, what string, since time.Time, holds func() bool) (notYet time.Duration) {
	t.Helper()
	for begun := time.Now(); ; {
		looked := time.Now()
		if holds() {
			return notYet
		}
		notYet = max(0, looked.Sub(since))
		if looked.Sub(begun) > longWait {
			t.Fatalf("never came to hold: %s", what)
		}
		time.Sleep(lookEvery)
	}
}

// isWhole tells whether each sees all of them alive and all engines at work.
func isWhole(all []*machine) bool {
	engines := 0
	for _, m := range all {
		if m.slots > 0 {
			engines++
		}
	}
	return everyone(all, func(m *machine) bool {
		alive := 0
		for _, state := range m.members() {
			if state == "alive" {
				alive++
			}
		}
		return alive == len(all) && m.serves() == engines
	})
}

// gone tells whether no machine sees one from which the fault divides it in one of the states. The victim's own view is
// left out where only the others' counts.
func (b *bench) gone(f fault, others bool, states ...string) bool {
	index := map[*machine]int{}
	var witnesses []*machine
	for i, m := range b.all {
		index[m] = i
		if i != victim || !others {
			witnesses = append(witnesses, m)
		}
	}
	return everyone(witnesses, func(m *machine) bool {
		seen := m.members()
		for i, other := range b.all {
			for _, s := range states {
				if f.under(index[m], i) && seen[other.name] == s {
					b.mu.Lock()
					b.sees = m.name + " saw " + other.name + " " + s
					b.mu.Unlock()
					return false
				}
			}
		}
		return seen != nil
	})
}

// books reads what all engines ran of the marks that begin so, once they have ended it.
func books(t *testing.T, all []*machine, mark string) (runs [][]run) {
	t.Helper()
	until(t, "engines have ended what they ran", time.Now(), func() bool {
		runs = nil
		for _, m := range all {
			b := m.book(t, mark)
			for _, r := range b.Runs {
				if r.Fate == "" {
					return false
				}
			}
			runs = append(runs, b.Runs)
		}
		return true
	})
	return runs
}

// neverOver checks that no engine ever had more requests than slots.
func neverOver(t *testing.T, all []*machine) {
	t.Helper()
	for _, m := range all {
		if s := m.book(t, "none").Stats; s.MaxActive > m.slots || s.Oversubscribed > 0 {
			t.Errorf("the engine of %s has %d slots, and had %d requests at one time; %d found no slot free", m.name, m.slots, s.MaxActive, s.Oversubscribed)
		}
	}
}

// pulse measures how long this process stands still at most: as long as others have the machine's processors. Times
// taken meanwhile say little of nodes.
func pulse() (stop func() time.Duration) {
	end, worst := make(chan struct{}), make(chan time.Duration)
	go func() {
		const beat = 20 * time.Millisecond
		longest, last := time.Duration(0), time.Now()
		for {
			select {
			case <-end:
				worst <- longest
				return
			case <-time.After(beat):
			}
			now := time.Now()
			longest, last = max(longest, now.Sub(last)-beat), now
		}
	}()
	return func() time.Duration { close(end); return <-worst }
}
