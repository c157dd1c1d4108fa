package appliance

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"viiwork/appliance/config"
	"viiwork/appliance/gateway"
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

// Tallies counts requests of a node of that name, in a mesh whose models are those that served knows.
func Tallies(node string, served func(string) bool) (prometheus.Collector, gateway.Ear) {
	t := newTallies(node, served)
	return t, t.ear(func(status.Request, gateway.Course) {})
}

// Cut brings what v points to within the bounds of what a member may tell.
func Cut(v any) { cut(v) }

// Newer reports whether release a came after b.
func Newer(a, b string) bool { return newer(a, b) }

// BoardOf makes the board of a node that tells own and has been told by others at a moment, by a clock ahead of its own.
func BoardOf(now time.Time, own status.View, others ...status.View) status.Board {
	nodes := []pictured{{Member: status.Member{Name: own.Node.Node, State: "alive"}, self: true, view: &own, at: now}}
	for _, v := range others {
		nodes = append(nodes, pictured{Member: status.Member{Name: v.Node.Node, State: "alive"}, view: &v, at: now, skew: told{}.skewed(v.Time, now)})
	}
	return picture{now: now, self: own.Node.Node, nodes: nodes}.board(nil)
}

// Skewed tells the skew of a clock after each answer.
func Skewed(ahead ...time.Duration) (all []time.Duration) {
	var t told
	now := time.Now()
	for _, d := range ahead {
		t.skew = t.skewed(now.Add(d), now)
		all = append(all, *t.skew)
	}
	return all
}

// MarkSlow marks the machines that are slow.
var MarkSlow = markSlow

// Uses is who runs and waits how much, of requests alone.
func Uses(requests []status.BoardRequest) []status.BoardUse { return picture{}.uses(requests) }

// BoardCard is a card as a board has it.
func BoardCard(c status.GPU) status.Card {
	view := &status.View{Node: status.Node{GPUs: []status.GPU{c}}}
	return picture{nodes: []pictured{{view: view}}}.cards()[0]
}

// ReadWord is the models in the word of the run before, nil if it is none.
func ReadWord(data []byte, now time.Time) []string { return readWord(data, now).Models }

// Room says why a second engine cannot be held beside what runs.
func (a *Appliance) Room(ctx context.Context, m engine.Model, gpus []int) error {
	return a.room(ctx, m, gpus)
}
