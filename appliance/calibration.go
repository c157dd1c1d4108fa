package appliance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"viiwork/engine"
	"viiwork/engine/gguf"
	"viiwork/engine/gpu"
	"viiwork/engine/plan"
)

// Bounds of the file of measurements.
const (
	maxCalibrationFile = 1 << 20
	maxCalibrations    = 512
	calibrationVersion = 1
	mostBeside         = 1 << 40
)

// calibration remembers what loaded engines were seen to hold of their cards, for the plans of later starts. It is by model
// digest, kind of cards and engine build; a plan is made before an engine tells its build, so it takes the largest figure of
// all builds.
type calibration struct {
	path string

	mu   sync.Mutex // guards seen, and keeps the file in step with it
	seen []calibrated
}

type calibrated struct {
	Digest string    `json:"digest"`
	Cards  string    `json:"cards"`
	Build  string    `json:"build"`
	Time   time.Time `json:"time"`
	plan.Beside
}

type calibrationDoc struct {
	Version int          `json:"version"`
	Seen    []calibrated `json:"seen"`
}

// openCalibration reads the file. One that is missing, unreadable or none of ours leaves nothing known: plans go by the
// formula then.
func openCalibration(stateDir string) *calibration {
	c := &calibration{path: filepath.Join(stateDir, "calibration.json")}
	f, err := os.OpenFile(c.path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for a writer that never comes
	if err != nil {
		return c
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return c
	}
	data, err := io.ReadAll(io.LimitReader(f, maxCalibrationFile+1))
	if err == nil {
		c.seen = readCalibration(data)
	}
	return c
}

func readCalibration(data []byte) []calibrated {
	var doc calibrationDoc
	if len(data) > maxCalibrationFile || json.Unmarshal(data, &doc) != nil || doc.Version != calibrationVersion || len(doc.Seen) > maxCalibrations {
		return nil
	}
	return slices.DeleteFunc(doc.Seen, func(s calibrated) bool { return !s.possible() })
}

func (s calibrated) possible() bool {
	return strings.HasPrefix(s.Digest, digestMark) && len(s.Digest) < 200 && len(s.Cards) < 4096 && len(s.Build) < 200 &&
		s.Bytes > 0 && s.Bytes < mostBeside && s.Tokens > 0 && s.Tokens < 1<<32
}

// of is what was seen of a model file on such cards. The digest is worked out only if anything is known at all.
func (c *calibration) of(file gguf.File, cards []gpu.Card, m engine.Model) plan.Beside {
	c.mu.Lock()
	known := slices.Clone(c.seen)
	c.mu.Unlock()
	if len(known) == 0 || len(file.Shards) == 0 || len(m.Backends) == 0 || len(m.Backends[0].GPUs) == 0 {
		return plan.Beside{}
	}
	digest, err := fileDigest(context.Background(), file.Shards)
	if err != nil {
		return plan.Beside{}
	}
	kind, best := cardNames(cards, m.Accel, m.Backends[0].GPUs), plan.Beside{}
	for _, s := range known {
		if s.Digest == digest && s.Cards == kind && s.Bytes > best.Bytes {
			best = s.Beside
		}
	}
	return best
}

// note keeps a measurement; the oldest makes room. What is about the same as before is not written anew.
func (c *calibration) note(s calibrated) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	same := func(o calibrated) bool { return o.Digest == s.Digest && o.Cards == s.Cards && o.Build == s.Build }
	if i := slices.IndexFunc(c.seen, same); i >= 0 && c.seen[i].Tokens == s.Tokens && near(c.seen[i].Bytes, s.Bytes) {
		return nil
	}
	next := append(slices.DeleteFunc(slices.Clone(c.seen), same), s)
	if len(next) > maxCalibrations {
		slices.SortFunc(next, func(a, b calibrated) int { return a.Time.Compare(b.Time) })
		next = next[len(next)-maxCalibrations:]
	}
	data, err := json.Marshal(calibrationDoc{calibrationVersion, next})
	if err == nil {
		err = replaceFile(c.path, data)
	}
	if err != nil {
		return fmt.Errorf("storing what engines hold of their cards: %w", err)
	}
	c.seen = next
	return nil
}

func near(a, b int64) bool { return max(a, b)-min(a, b) < 64<<20 }

// replaceFile writes a file anew: a power cut leaves the old one or the new one.
func replaceFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it has its name
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// cardNames names the kinds of cards a backend runs on, whatever their indices.
func cardNames(cards []gpu.Card, accel engine.Accel, indices []int) string {
	names := map[string]int{}
	for _, card := range cards {
		if card.Accel == accel && slices.Contains(indices, card.Index) {
			names[card.Name]++
		}
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		words = append(words, fmt.Sprintf("%d × %s", names[name], name))
	}
	return string(accel) + " " + strings.Join(words, ", ")
}

// placed tells whether an engine sits on its cards, and where it does, measures what it holds there.
func (a *Appliance) placed(ctx context.Context, pids []int, gpus []int, accel engine.Accel) engine.Placement {
	where := a.host.Placed(ctx, pids, gpus, accel)
	if where == engine.PlacementRight {
		if err := a.measure(a.host.Held(ctx, pids, accel), gpus, accel); err != nil {
			a.log.Warn("plans go by the formula: what engines hold of their cards is not kept", "error", err)
		}
	}
	return where
}

// measure keeps what the engine on these cards was seen to hold.
func (a *Appliance) measure(held map[int]int64, gpus []int, accel engine.Accel) error {
	for _, m := range a.engine.Snapshot() {
		for _, b := range m.Backends {
			if m.Model.Accel != accel || !slices.Equal(b.GPUs, gpus) {
				continue
			}
			digest := a.digests.of(m.Model.Name)
			a.mu.Lock()
			cards := a.cards
			a.mu.Unlock()
			s := Survey{Root: a.options.HostRoot, cards: cards}
			wish, _ := wishOf(m.Model) // of a file that has gone nothing is measured
			wish.Context = cmp.Or(b.Context, wish.Context)
			beside, ok := plan.Measure(s.machine(), wish, gpus, held)
			if !ok || digest == "" || b.Build == "" {
				return nil
			}
			a.log.Debug("measured an engine", "backend", b.ID, slog.Int64("bytes_beside", beside.Bytes))
			return a.calibration.note(calibrated{Digest: digest, Cards: cardNames(cards, accel, gpus), Build: b.Build, Time: time.Now().UTC(), Beside: beside})
		}
	}
	return nil
}
