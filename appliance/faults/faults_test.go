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
	parts  bool          // those whom it divides come to hold each other for dead
	dies   bool          // to the others it is as if the victim had died
	mute   bool          // the victim cannot be asked meanwhile
	heals  bool          // in the time that is promised
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
		killed, cut := b.kill(t), b.cut(t)
		t.Run("seats of an entry that was killed", func(t *testing.T) { b.loseEntry(t, killed) })
		t.Run("seats of an entry that was cut off", func(t *testing.T) { b.loseEntry(t, cut) })
	}
	neverOver(t, b.all)
}

// kill is the end of a node's process.
func (b *bench) kill(t *testing.T) fault {
	v := b.all[victim]
	return fault{name: "kill -9", under: by, parts: true, dies: true, mute: true, heals: true,
		strike: func(*load) { v.kill() }, mend: func(*load) { v.spawn(t) }}
}

// cut is a cable pulled somewhere on the way.
func (b *bench) cut(t *testing.T) fault {
	v := b.all[victim]
	return fault{name: "cut off", under: between, parts: true, dies: true, lasts: 15 * time.Second, heals: true,
		strike: func(*load) { v.cable.plug(t, false) }, mend: func(*load) { v.cable.plug(t, true) }}
}

// faults are those of both forms.
func (b *bench) faults(t *testing.T) []fault {
	v := b.all[victim]
	split := func(entry, at int) bool { return b.all[entry].cable.side != b.all[at].cable.side }
	return []fault{
		b.kill(t),
		{name: "frozen", under: by, parts: true, dies: true, mute: true, lasts: 15 * time.Second, heals: true,
			strike: func(l *load) { l.close(victim, true); v.signal(syscall.SIGSTOP) },
			mend:   func(l *load) { v.signal(syscall.SIGCONT); l.close(victim, false) }},
		b.cut(t),
		{name: "split 2 and 3", under: split, parts: true, lasts: 75 * time.Second, heals: true,
			strike: func(*load) { b.net.split(t, true) }, mend: func(*load) { b.net.split(t, false) }},
	}
}

// costly are those of the full form alone.
func (b *bench) costly(t *testing.T) []fault {
	v := b.all[victim]
	var whole func()
	return []fault{
		{name: "slow cable", under: between, lasts: 20 * time.Second,
			strike: func(*load) {
				how := v.cable.slow(t)
				if how == "" {
					t.Skip("tc knows neither netem nor tbf here")
				}
				t.Log("made slow by ", how)
			},
			mend: func(*load) { v.cable.fast(t) }},
		{name: "lossy cable", under: between, lasts: 20 * time.Second,
			strike: func(*load) {
				var how string
				if how, whole = v.cable.lossy(t); how == "" {
					t.Skip("neither tc's netem nor iptables' statistic is here")
				}
				t.Log("made lossy by ", how)
			},
			mend: func(*load) { whole() }},
		{name: "twenty restarts", mute: true, under: by,
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
		{name: "clock an hour ahead and back", under: nowhere, lasts: 10 * time.Second,
			strike: func(*load) {
				v.step(t, time.Hour)
				until(t, "a warning names the clock", time.Now(), func() bool { return b.all[0].warns("mesh_clock") || v.warns("mesh_clock") })
			},
			mend: func(*load) { v.step(t, 0) }},
	}
}

// suffer lets the fault come and go under load, and holds what came of it against what is promised.
func (b *bench) suffer(t *testing.T, f fault) {
	mark := strings.ToLower(strings.Map(letters, t.Name()))
	still := pulse()
	warm := time.Second / 2
	if full() {
		warm = 2 * time.Second
	}
	until(t, "the mesh is whole", time.Now(), func() bool { return isWhole(b.all) })
	l := newLoad(b.all, mark, 8, 16) // fewer than slots, so that they run where they prefer to
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
	if f.heals {
		promised(t, "whole again", healed, healsWithin)
	}
	time.Sleep(warm)
	v := judge(l.stop(), books(t, b.all, mark), f.under)
	t.Logf("%swhole again after %s; %s", times, seconds(healed), v)
	if gap := still(); gap > time.Second/4 {
		t.Logf("others kept this machine busy: the bench itself stood still for up to %s", seconds(gap))
	}
	if t.Failed() {
		t.Log("last ", b.sees)
	}
	v.hold(t)
}

// part waits until those whom the fault divides hold each other for dead, and says how long that took.
func (b *bench) part(t *testing.T, f fault, struck time.Time) (times string) {
	if !f.parts {
		return ""
	}
	routed := []string{"alive", "draining"}
	routing := until(t, "it is out of routing", struck, func() bool { return b.gone(f, f.dies, routed...) })
	promised(t, "out of routing", routing, leavesRouting)
	times = "out of routing after " + seconds(routing) + ", "
	if !full() {
		return times
	}
	known := append(routed, "silent")
	mesh := until(t, "it is out of the mesh", struck, func() bool { return b.gone(f, f.dies, known...) })
	times += "out of the mesh after " + seconds(mesh) + ", "
	if !f.dies {
		return times
	}
	promised(t, "out of the mesh", mesh, leavesMesh)
	if !f.mute { // who is alone doubts itself first, and takes longer
		own := until(t, "it is alone by its own account", struck, func() bool { return b.gone(f, false, known...) })
		times += "alone by its own account after " + seconds(max(own, mesh)) + ", "
	}
	return times
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
