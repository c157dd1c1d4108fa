package store

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"viiwork/appliance/kvshare/replica"
)

// Arrival is a replica that comes from elsewhere, chunk by chunk and in any order. Its methods may be called from any
// goroutine. It ends with Commit or Abort.
type Arrival struct {
	s    *Store
	name Name
	m    replica.Manifest

	mu    sync.Mutex
	w     *writer // nil after the end
	has   []bool
	lacks []int
}

var errEnded = errors.New("the arrival has ended")

// Begin starts an arrival: of what is here already nothing needs to come, and nothing of it goes away meanwhile. Errors:
// [ErrName], [replica.ErrManifest], [ErrTooLarge].
func (s *Store) Begin(n Name, m replica.Manifest) (*Arrival, error) {
	err := m.Validate()
	if err == nil {
		err = s.acceptable(n, m.Key, m.Size)
	}
	if err != nil {
		return nil, fmt.Errorf("beginning the arrival of a replica: %w", err)
	}
	a := &Arrival{s: s, name: n, m: m, w: s.newWriter(idOf(n, m.Key)), has: make([]bool, len(m.Chunks))}
	missing := map[replica.Sum]bool{}
	for i, c := range m.Chunks {
		if a.has[i] = a.w.hold(c); !a.has[i] && !missing[c.Sum] {
			missing[c.Sum] = true
			a.lacks = append(a.lacks, i)
		}
	}
	return a, nil
}

// Lacks lists the chunks that have to come, each once, by their index in the manifest: those of the beginning, less what
// came since.
func (a *Arrival) Lacks() []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	var lacks []int
	for _, i := range a.lacks {
		if !a.has[i] {
			lacks = append(lacks, i)
		}
	}
	return lacks
}

// Put keeps a chunk. Errors: [ErrWrongChunk] for bytes that are not those of the manifest, of which nothing is kept; [ErrNoRoom]
// and the disk's.
func (a *Arrival) Put(i int, b []byte) error {
	if i < 0 || i >= len(a.m.Chunks) {
		return fmt.Errorf("storing chunk %d: %w: there are %d", i, ErrWrongChunk, len(a.m.Chunks))
	}
	c := a.m.Chunks[i]
	if len(b) != int(c.Size) || sha256.Sum256(b) != c.Sum {
		return fmt.Errorf("storing chunk %d: %w", i, ErrWrongChunk)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.w == nil {
		return errEnded
	}
	if a.has[i] {
		return nil
	}
	if err := a.w.add(c, b); err != nil {
		return err
	}
	a.has[i] = true
	return nil
}

// Commit makes what came the newest state of its conversation. While chunks are missing it returns [ErrIncomplete] and
// the arrival goes on; any other error has aborted it.
func (a *Arrival) Commit() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.w == nil {
		return errEnded
	}
	for i, c := range a.m.Chunks {
		if !a.has[i] {
			if !a.w.hold(c) {
				return fmt.Errorf("keeping a replica: %w", ErrIncomplete)
			}
			a.has[i] = true
		}
	}
	w := a.w
	err := w.order(a.m)
	if err == nil {
		err = w.commit(a.name, a.m)
	}
	if err != nil {
		a.abort()
		return fmt.Errorf("keeping a replica: %w", err)
	}
	a.w = nil
	return nil
}

// Abort ends an arrival that is not complete. What came stays for Config.Linger, so that the next one need not begin
// anew. After the end it does nothing.
func (a *Arrival) Abort() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.abort()
}

func (a *Arrival) abort() {
	w, s := a.w, a.s
	if w == nil {
		return
	}
	a.w = nil
	if err := w.publish(); err != nil {
		s.cfg.Log.Warn("what came of a replica is lost", "error", err)
		w.cancel()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leftover = append(s.leftover, leftover{w.held, s.cfg.Now().Add(s.cfg.Linger)})
	w.held = nil
	w.finish()
}
