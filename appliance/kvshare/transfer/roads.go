package transfer

import (
	"sync"
	"time"
)

// path is one of the two ways to a member.
type path int

const (
	byMesh path = iota
	byDirect
	paths
)

const (
	// remeasure is how long the rate of a path that is not used is believed.
	remeasure = 5 * time.Minute
	// probe is how many bytes tell how fast a path is.
	probe = 4 << 20
	// worthProbing is how many bytes there must be to fetch for trying the mesh's own path beside a direct one.
	worthProbing = 8 * probe
	// shunFor is how long a path that broke off is not taken while there is another.
	shunFor = time.Minute
	// maxRoads bounds the members whose paths are remembered.
	maxRoads = 256
)

// way is what is known of one path to one member.
type way struct {
	bps  float64 // 0 = not measured
	at   time.Time
	shun time.Time // until then
}

func (w way) known(now time.Time) bool { return w.bps > 0 && now.Sub(w.at) < remeasure }

// roads is what is known of the paths to members, by id.
type roads struct {
	mu sync.Mutex // guards what follows
	of map[string]*[paths]way
}

// to wants the lock held.
func (r *roads) to(id string) *[paths]way {
	if w := r.of[id]; w != nil {
		return w
	}
	for other := range r.of {
		if len(r.of) < maxRoads {
			break
		}
		delete(r.of, other) // any one: it is measured again when it is needed
	}
	if r.of == nil {
		r.of = map[string]*[paths]way{}
	}
	w := new([paths]way)
	r.of[id] = w
	return w
}

func (r *roads) measured(id string, p path, bytes int64, took time.Duration) {
	if bytes < leastMoved || took <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &r.to(id)[p]
	now, rate := time.Now(), float64(bytes)/took.Seconds()
	if !w.known(now) {
		w.bps = 0
	}
	w.bps, w.at = mean(w.bps, rate), now
}

func (r *roads) shun(id string, p path) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to(id)[p].shun = time.Now().Add(shunFor)
}

// shunned tells whether a path to a member broke off lately.
func (r *roads) shunned(id string, p path) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.to(id)[p].shun)
}

// best is the faster of both paths for so many bytes. Where that is not known yet, it is one to be measured.
func (r *roads) best(id string, left int64) path {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, now := r.to(id), time.Now()
	mesh, direct := w[byMesh], w[byDirect]
	switch {
	case !direct.known(now):
		return byDirect
	case !mesh.known(now):
		if left < worthProbing {
			return byDirect
		}
		return byMesh
	case mesh.bps > direct.bps:
		return byMesh
	}
	return byDirect
}

// window is how many bytes to ask for at one time: what comes in about a second, so that others get their turn, and what is
// needed for a measure where there is none. A path that was slow is measured anew with less: a relay may need ten seconds for a
// whole probe, while somebody waits for what the other path would have brought by then.
func (r *roads) window(id string, p path, most int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.to(id)[p]
	switch {
	case w.bps == 0:
		return probe
	case !w.known(time.Now()):
		return min(max(int64(w.bps/2), leastMoved), probe)
	}
	return min(max(int64(w.bps), leastMoved), most)
}
