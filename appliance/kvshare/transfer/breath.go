package transfer

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// leastLimit is what a node may take for itself while a cache goes over a userspace network stack, roomForStack what that
	// may take beside what lives already. The stack holds a packet of 1,280 bytes in a buffer of 64 KiB, and the collector
	// leaves as much again lying about: unlimited, a copy took 500 MB, and a long one over a gigabyte.
	leastLimit   = 192 << 20
	roomForStack = 112 << 20
	// restAfter is how long nothing must have moved for the memory to be given back and the limit to end.
	restAfter = time.Second
)

// breath limits this process's memory while caches go over the tailnet. It is a soft limit: where more lives than it
// allows, the collector works harder, for half of the time at most.
type breath struct {
	mu     sync.Mutex // guards what follows
	moving int
	before int64 // the limit that is to come back, 0 = it stands
	ours   int64
	rest   *time.Timer
}

// hold begins the limit, once for all who hold it; drop ends it when the last has gone and no other has come.
func (b *breath) hold() (drop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.moving++
	if b.rest != nil {
		b.rest.Stop()
	}
	if b.before == 0 {
		runtime.GC() // what lies in pools lives until the second collection
		runtime.GC()
		b.before = debug.SetMemoryLimit(-1)
		b.ours = min(b.before, max(leastLimit, living()+roomForStack))
		debug.SetMemoryLimit(b.ours)
	}
	return b.drop
}

func (b *breath) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.moving--; b.moving == 0 {
		b.rest = time.AfterFunc(restAfter, b.end)
	}
}

func (b *breath) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.moving > 0 || b.before == 0 {
		return
	}
	if debug.SetMemoryLimit(-1) == b.ours { // else somebody has set another one
		debug.SetMemoryLimit(b.before)
	}
	b.before = 0
	runtime.GC()
	debug.FreeOSMemory()
}

// living is how many bytes were in use when the collector last looked.
func living() int64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(s[0].Value.Uint64())
}
