package appliance

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"viiwork/appliance/config"
	"viiwork/appliance/status"
	"viiwork/engine"
	"viiwork/engine/gpu"
	"viiwork/engine/plan"
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

// ReadBorrowed reads cards through the containers of engines.
func ReadBorrowed(ctx context.Context, host gpu.Host, cards []gpu.Card, models []engine.ModelState, exec func(ctx context.Context, container, program string, args ...string) (string, error)) ([]gpu.Card, []gpu.Fault) {
	return readBorrowed(ctx, host, borrowed{cards: cards, models: models, exec: exec})
}

// ReadCalibration is what a file of measurements comes to.
func ReadCalibration(data []byte) int { return len(readCalibration(data)) }

// Calibrated keeps n measurements of different models below dir, one after the other, and returns how many the file has.
func Calibrated(dir string, n int) (int, error) {
	c := openCalibration(dir)
	for i := range n {
		s := calibrated{Digest: digestMark + itoa(i), Cards: "cuda 1 × RTX", Build: "b1", Time: time.Unix(int64(i), 0), Beside: plan.Beside{Bytes: 1 << 30, Tokens: 4096}}
		if err := c.note(s); err != nil {
			return 0, err
		}
	}
	return len(openCalibration(dir).seen), nil
}

// Measured keeps what an engine of cfg's first model was seen to hold beside, as on cards found below root.
func Measured(cfg *config.Config, root string, beside plan.Beside) error {
	s := Survey{Root: root}
	s.Check(context.Background(), cfg)
	m := s.models[0]
	digest, err := fileDigest(context.Background(), []string{m.Path})
	if err != nil {
		return err
	}
	return openCalibration(cfg.Node.StateDir).note(calibrated{Digest: digest, Cards: cardNames(s.cards, m.Accel, m.Backends[0].GPUs), Build: "b1", Time: time.Now(), Beside: beside})
}

// Digests keeps those of what models lists, looked at by Update.
type Digests struct{ d *digests }

// NewDigests makes them.
func NewDigests(models func() []engine.ModelState) Digests {
	return Digests{newDigests(models, func() {})}
}

// Update looks at the files once and returns the warnings about replaced ones.
func (d Digests) Update(ctx context.Context) []status.Warning {
	d.d.update(ctx)
	return d.d.replaced()
}
