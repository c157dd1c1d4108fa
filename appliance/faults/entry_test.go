//go:build linux

package faults_test

import (
	"strings"
	"testing"
	"time"
)

// loseEntry: an entry goes with a request of its client at another machine, which has one of another entry, too, and a
// third that waits for a seat. The seat is free again in its time, and the two others get their answers.
func (b *bench) loseEntry(t *testing.T, f fault) {
	const owner, other = 3, 4
	mark := strings.ToLower(strings.Map(letters, t.Name())) + "-"
	pinned := "?host=" + b.all[owner].name
	long := func(d time.Duration) int { return int(d / tokenTime) }
	replies := map[string]chan reply{}
	ask := func(entry int, name string, tokens int) {
		done := make(chan reply, 1)
		replies[name] = done
		go func() { done <- b.all[entry].ask(pinned, mark+name, tokens, true) }()
	}
	runs := func() map[string]run {
		all := map[string]run{}
		for _, r := range b.all[owner].book(t, mark).Runs {
			all[r.Mark[len(mark):]] = r
		}
		return all
	}
	until(t, "the mesh is whole", time.Now(), func() bool { return isWhole(b.all) })
	ask(victim, "lost", long(50*time.Second))
	ask(other, "kept", long(25*time.Second))
	until(t, "both run", time.Now(), func() bool {
		for name, done := range replies {
			if len(done) > 0 {
				t.Fatalf("%s ended before it ran: %+v", name, <-done)
			}
		}
		return len(runs()) == 2
	})
	ask(other, "waits", 8)
	time.Sleep(time.Second) // it has found no seat
	struck := time.Now()
	f.strike(nil)
	freed := until(t, "the dead entry's seat is free", struck, func() bool { return runs()["lost"].Fate != "" })
	waiter := <-replies["waits"]
	t.Logf("the engine let go of the dead entry's request after %s; who waited for the seat: status %d after %s in line", seconds(freed), waiter.status, seconds(waiter.queued))
	promised(t, "a dead entry's seat free", freed, seatsFreed)
	if waiter.ending != answered {
		t.Errorf("who waited for the seat: %+v", waiter)
	}
	if kept := <-replies["kept"]; kept.ending != answered {
		t.Errorf("the request of an entry that lives: %+v", kept)
	}
	if gone := <-replies["lost"]; gone.ending != broken {
		t.Errorf("the request of the entry that was lost: %+v, want it broken", gone)
	}
	f.mend(nil)
	t.Logf("whole again after %s", seconds(until(t, "the mesh is whole", time.Now(), func() bool { return isWhole(b.all) })))
}
