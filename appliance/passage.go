package appliance

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"viiwork/appliance/status"
)

// passage is the way from the run before to this one, and from this one to the next.
type passage struct {
	path string // where a run leaves word for the next
	run  string
	wish chan time.Duration // holds one: this run is to end, and what runs has so long to finish

	mu     sync.Mutex // guards what follows
	since  time.Time  // this run has been ending; zero = it is not
	until  time.Time  // it ends at the latest
	before word       // of the run before; zero = it left none
	last   *status.Handover
}

// word is what a run leaves for the next.
type word struct {
	Version  string    `json:"version"`
	Models   []string  `json:"models"`   // it could answer, here or elsewhere
	Members  []string  `json:"members"`  // ids of those it heard last
	Requests int       `json:"requests"` // it waited for
	Since    time.Time `json:"since"`    // it was told to end
	Closed   time.Time `json:"closed"`   // it took no more connections
	Ended    time.Time `json:"ended"`    // nothing ran any more
}

const (
	wordKept = 10 * time.Minute // an older one tells of a machine that was off, not of a handover
	maxWord  = 1 << 20
	maxNames = 1000 // of models in it, and of members
)

// openPassage reads the word of the run before. Whatever is wrong with it, it is as if there were none.
func openPassage(stateDir string) *passage {
	p := &passage{path: filepath.Join(stateDir, "handover.json"), run: newToken()[:16], wish: make(chan time.Duration, 1)}
	f, err := os.OpenFile(p.path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for a writer that never comes
	if err != nil {
		return p
	}
	defer f.Close()
	if is, err := f.Stat(); err != nil || !is.Mode().IsRegular() {
		return p
	}
	if data, err := io.ReadAll(io.LimitReader(f, maxWord+1)); err == nil {
		p.before = readWord(data, time.Now())
	}
	return p
}

// readWord returns the zero word for what no run can have left.
func readWord(data []byte, now time.Time) (w word) {
	if len(data) > maxWord || json.Unmarshal(data, &w) != nil || len(w.Models) > maxNames || len(w.Members) > maxNames || len(w.Version) > 128 ||
		w.Closed.Before(w.Since) || w.Ended.Before(w.Since) || w.Ended.Before(now.Add(-wordKept)) || w.Ended.After(now) {
		return word{}
	}
	return w
}

// leave notes that this run ends within so long. The first word counts.
func (p *passage) leave(within time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		p.since = time.Now()
		p.until = p.since.Add(within)
	}
}

// now is what is known of both ways.
func (p *passage) now() status.Restart {
	p.mu.Lock()
	defer p.mu.Unlock()
	return status.Restart{Run: p.run, Ending: !p.since.IsZero(), Since: p.since, Until: p.until, Last: p.last}
}

// answered lists the models that the run before could answer, and the members that it heard.
func (p *passage) answered() (models, members []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.before.Models, p.before.Members
}

// arrived notes that this run answers, and tells how long nobody did.
func (p *passage) arrived(version string, log *slog.Logger) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.before
	if w.Ended.IsZero() {
		return
	}
	now := time.Now()
	p.last = &status.Handover{
		From: w.Version, To: version, Requests: w.Requests, At: now,
		Drain: w.Ended.Sub(w.Since).Seconds(), Swap: max(0, now.Sub(w.Ended).Seconds()), Held: max(0, now.Sub(w.Closed).Seconds()),
	}
	log.Info("took over from the run before", "version_before", w.Version, "drain_s", p.last.Drain, "swap_s", p.last.Swap, "held_s", p.last.Held)
	_ = os.Remove(p.path) // else the run after a crash would take it for its own
}

// tell leaves word for the next run. Without one that only does not know how long nobody answered.
func (p *passage) tell(w word, log *slog.Logger) {
	p.mu.Lock()
	w.Since = p.since
	p.mu.Unlock()
	w.Models, w.Members = w.Models[:min(len(w.Models), maxNames)], w.Members[:min(len(w.Members), maxNames)]
	data, err := json.Marshal(w)
	if err == nil {
		err = replaceFile(p.path, data)
	}
	if err != nil {
		log.Warn("no word is left for the next run", "error", err)
	}
}
