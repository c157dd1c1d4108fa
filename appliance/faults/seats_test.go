//go:build linux

package faults_test

import (
	"slices"
	"testing"
	"time"
)

// TestSeatsUnderLoad: 64 clients on eight slots of four nodes, through three of them as entries.
func TestSeatsUnderLoad(t *testing.T) {
	all := onLoopback(t, 2, 2, 2, 2)
	for _, m := range all {
		m.start(t)
	}
	until(t, "the mesh is whole", time.Now(), func() bool { return isWhole(all) })
	lasts := 5 * time.Second
	if full() {
		lasts = time.Minute
	}
	begun, still := time.Now(), pulse()
	l := newLoad(all[:3], "seats", 64, 16)
	time.Sleep(lasts)
	asked := l.stop()
	took := time.Since(begun)
	v := judge(asked, books(t, all, "seats"), nowhere)
	var waits []time.Duration
	for _, a := range asked {
		if a.ending == answered {
			waits = append(waits, a.queued)
		}
	}
	if len(waits) == 0 {
		t.Fatal("nothing was answered")
	}
	slices.Sort(waits)
	best := float64(8) / (16 * tokenTime).Seconds()
	rate := float64(v.answered) / took.Seconds()
	t.Logf("64 clients on 8 slots through 3 entries: %.1f requests/s, %.0f %% of what the slots can do; waits %s p50, %s p95, %s at most; %s",
		rate, 100*rate/best, seconds(waits[len(waits)/2]), seconds(waits[len(waits)*95/100]), seconds(waits[len(waits)-1]), v)
	if gap := still(); gap > time.Second/4 {
		t.Logf("others kept this machine busy: the bench itself stood still for up to %s", seconds(gap))
	}
	if v.lost+v.doubled+v.broken+v.stray > 0 {
		t.Errorf("requests were lost, doubled or broken: %q", v.examples)
	}
	neverOver(t, all)
}
