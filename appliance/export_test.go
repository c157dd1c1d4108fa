package appliance

import (
	"github.com/prometheus/client_golang/prometheus"

	"viiwork/appliance/status"
)

// FileDigest is the digest of a model in these shards.
var FileDigest = fileDigest

// DigestLargest is the largest file that is read whole for its digest.
const DigestLargest = digestLargest

// Missing are the peers that a node asks to gossip.
var Missing = missing

// NextPause is how long a node waits before it looks for others again.
var NextPause = nextPause

// SpoolPlace is what a spool is chosen by.
type SpoolPlace struct {
	State, Shm, Boot string
	Off              bool
	Free, Memory     int64
}

// Spool is a folder for slot files that was chosen.
type Spool struct{ *spool }

// PickSpool chooses one.
func PickSpool(p SpoolPlace) Spool {
	room := func(string) (int64, int64) { return p.Free, p.Memory }
	return Spool{pickSpool(place{state: p.State, shm: p.Shm, boot: p.Boot, off: p.Off, room: room})}
}

// Dir is where it is.
func (s Spool) Dir() string { return s.dir }

// Open makes it.
func (s Spool) Open() error { return s.open() }

// Close ends its use.
func (s Spool) Close(enginesLeft bool) { s.close(enginesLeft) }

// CacheMetrics is what /metrics tells of moved caches.
func CacheMetrics(report func() status.KV) prometheus.Collector { return cacheMetrics{report} }
