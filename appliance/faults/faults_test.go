//go:build linux

package faults_test

import (
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// What is promised. The full form fails when one of these is passed.
const (
	leavesRouting = 3 * time.Second
	leavesMesh    = 10 * time.Second
	healsWithin   = 15 * time.Second
	seatsFreed    = 12 * time.Second
)

// fault is one thing that goes wrong while clients are at work.
type fault struct {
	name   string
	strike func(*load)
	mend   func(*load)
	under  under         // which requests it may cost
	lasts  time.Duration // at least
	parts  bool          // those under it must be told from each other's dead: they leave routing and the mesh
	mute   int           // the machine that cannot be asked meanwhile; -1 = all can
	heals  time.Duration // bound after mend; 0 = none is promised
}

// victim is in the west with one other; three are in the east.
const victim = 1

// by is a fault of the victim itself: what comes in there or runs there.
func by(entry, at int) bool { return entry == victim || at == victim }

// between is a fault of the victim's cable: what comes in there and runs elsewhere, or the other way round.
func between(entry, at int) bool { return (entry == victim) != (at == victim) }

func nowhere(int, int) bool { return false }

func TestFaults(t *testing.T) {
	b := newBench(t)
	begun := time.Now()
	t.Logf("five nodes know each other %.1f s after the last was started", until(t, "the mesh is whole", begun, func() bool { return isWhole(b.all) }).Seconds())
	for _, f := range b.faults(t) {
		t.Run(strings.ReplaceAll(f.name, " ", "-"), func(t *testing.T) { b.suffer(t, f) })
	}
	if full() {
		for _, f := range b.costly(t) {
			t.Run(strings.ReplaceAll(f.name, " ", "-"), func(t *testing.T) { b.suffer(t, f) })
		}
		t.Run("seats of an entry that was killed", func(t *testing.T) {
			b.loseEntry(t, func() { b.all[victim].kill() }, func() { b.all[victim].spawn(t) })
		})
		t.Run("seats of an entry that was cut off", func(t *testing.T) {
			b.loseEntry(t, func() { b.all[victim].cable.plug(t, false) }, func() { b.all[victim].cable.plug(t, true) })
		})
	}
	neverOver(t, b.all)
}

// faults are those of both forms.
func (b *bench) faults(t *testing.T) []fault {
	v := b.all[victim]
	split := func(entry, at int) bool { return b.all[entry].cable.side != b.all[at].cable.side }
	return []fault{
		{name: "kill -9", mute: victim, under: by, parts: true, heals: healsWithin,
			strike: func(*load) { v.kill() }, mend: func(*load) { v.spawn(t) }},
		{name: "frozen", mute: victim, under: by, parts: true, lasts: 15 * time.Second, heals: healsWithin,
			strike: func(l *load) { l.close(victim, true); v.signal(syscall.SIGSTOP) },
			mend:   func(l *load) { v.signal(syscall.SIGCONT); l.close(victim, false) }},
		{name: "cut off", mute: -1, under: between, parts: true, lasts: 15 * time.Second, heals: healsWithin,
			strike: func(*load) { v.cable.plug(t, false) }, mend: func(*load) { v.cable.plug(t, true) }},
		{name: "split 2 and 3", mute: -1, under: split, parts: true, lasts: 20 * time.Second, heals: healsWithin,
			strike: func(*load) { b.net.split(t, true) }, mend: func(*load) { b.net.split(t, false) }},
	}
}

// costly are those of the full form alone.
func (b *bench) costly(t *testing.T) []fault {
	v := b.all[victim]
	var whole func()
	return []fault{
		{name: "slow cable", mute: -1, under: between, lasts: 20 * time.Second,
			strike: func(*load) {
				how := v.cable.slow(t)
				if how == "" {
					t.Skip("tc knows neither netem nor tbf here")
				}
				t.Log("made slow by ", how)
			},
			mend: func(*load) { v.cable.fast(t) }},
		{name: "lossy cable", mute: -1, under: between, lasts: 20 * time.Second,
			strike: func(*load) {
				var how string
				if how, whole = v.cable.lossy(t); how == "" {
					t.Skip("neither tc's netem nor iptables' statistic is here")
				}
				t.Log("made lossy by ", how)
			},
			mend: func(*load) { whole() }},
		{name: "twenty restarts", mute: victim, under: by,
			strike: func(*load) {
				for i := range 20 {
					if i%2 == 0 {
						v.kill()
					} else {
						v.leave()
					}
					v.spawn(t)
				}
			},
			mend: func(*load) {}},
		{name: "clock an hour ahead and back", mute: -1, under: nowhere, lasts: 10 * time.Second,
			strike: func(*load) { v.step(t, time.Hour) }, mend: func(*load) { v.step(t, 0) }},
	}
}

// suffer lets the fault come and go under load, and holds what came of it against what is promised.
func (b *bench) suffer(t *testing.T, f fault) {
	mark := strings.ToLower(strings.Map(letters, t.Name()))
	warm := time.Second
	if full() {
		warm = 2 * time.Second
	}
	until(t, "the mesh is whole", time.Now(), func() bool { return isWhole(b.all) })
	l := newLoad(b.all, mark, 12, 16)
	defer l.stop()
	time.Sleep(warm)
	struck := time.Now()
	mend := sync.OnceFunc(func() { f.mend(l) })
	defer mend() // also where the test ends early, for those that follow
	f.strike(l)
	times := b.part(t, f, struck)
	if full() {
		time.Sleep(time.Until(struck.Add(f.lasts)))
	}
	mended := time.Now()
	mend()
	healed := until(t, "the mesh is whole", mended, func() bool { return isWhole(b.all) })
	if f.heals > 0 {
		promised(t, "whole again", healed, f.heals)
	}
	time.Sleep(warm)
	v := judge(l.stop(), books(t, b.all, mark), f.under)
	t.Logf("%swhole again after %s; %s", times, seconds(healed), v)
	v.hold(t)
}

// part waits until those whom the fault divides hold each other for dead, and says how long that took.
func (b *bench) part(t *testing.T, f fault, struck time.Time) (times string) {
	if !f.parts {
		return ""
	}
	routing := until(t, "it is out of routing", struck, func() bool { return b.gone(f, "alive", "draining") })
	promised(t, "out of routing", routing, leavesRouting)
	times = "out of routing after " + seconds(routing) + ", "
	if !full() {
		return times
	}
	mesh := until(t, "it is out of the mesh", struck, func() bool { return b.gone(f, "alive", "draining", "silent") })
	promised(t, "out of the mesh", mesh, leavesMesh)
	return times + "out of the mesh after " + seconds(mesh) + ", "
}

// hold fails the test by what must not be.
func (v verdict) hold(t *testing.T) {
	if v.lost > 0 || v.doubled > 0 || full() && v.stray > 0 {
		t.Error("requests were lost, doubled or broken without need")
	}
	if v.answered == 0 {
		t.Error("nothing was answered, so nothing was shown")
	}
	for _, e := range v.examples {
		t.Log(e)
	}
}

// promised holds a time against its bound, where the clock is looked at.
func promised(t *testing.T, what string, took, bound time.Duration) {
	t.Helper()
	if full() && took > bound {
		t.Errorf("not %s %s after, promised are %s", what, seconds(took), bound)
	}
}

func seconds(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }

// letters keeps what a mark may be made of.
func letters(r rune) rune {
	if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
		return r
	}
	return -1
}
