package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"syscall"

	"viiwork/appliance/kvshare/replica"
)

const (
	roomStep    = 8 << 20 // bytes that a writer asks room for at a time
	writeBuffer = 1 << 20
)

// writer adds the chunks of one replica. Until done it is the only one that knows of what it wrote; the chunks that were
// here before are held from the moment they were found, so that nothing takes them away. One goroutine uses it.
type writer struct {
	s       *Store
	id      id
	held    []*place // a hold for each
	fresh   map[replica.Sum]*place
	packs   []*extent
	out     *bufio.Writer // to the last of packs
	granted int64         // bytes that Store.used has and that are not written yet
	bytes   int64         // that were written
}

// extent is what a writer appended to a pack.
type extent struct {
	pack       *pack
	begin, end int64
}

func (s *Store) newWriter(i id) *writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing[i]++
	return &writer{s: s, id: i, fresh: map[replica.Sum]*place{}}
}

// hold holds a chunk that is here already.
func (w *writer) hold(c replica.Chunk) bool {
	if p := w.fresh[c.Sum]; p != nil {
		p.holds++
		w.held = append(w.held, p)
		return true
	}
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	p := w.s.chunks[c.Sum]
	if p == nil || p.size != c.Size {
		return false
	}
	p.holds++
	w.held = append(w.held, p)
	return true
}

// add holds a chunk, and writes it if it is new. Its bytes have been checked.
func (w *writer) add(c replica.Chunk, b []byte) error {
	if w.hold(c) {
		return nil
	}
	p := &place{sum: c.Sum, size: c.Size, holds: 1}
	if err := w.ready(p.record()); err != nil {
		return err
	}
	e := w.packs[len(w.packs)-1]
	_, err := w.out.Write(frame(c.Sum, c.Size))
	if err == nil {
		_, err = w.out.Write(b)
	}
	if err != nil {
		return diskError(err)
	}
	p.pack, p.at = e.pack, e.end+int64(recordFrame)
	e.end += p.record()
	w.bytes += int64(c.Size)
	w.granted -= p.record()
	w.fresh[c.Sum] = p
	w.held = append(w.held, p)
	return nil
}

// ready sees to it that n bytes can be written: that there is room for them, and a pack.
func (w *writer) ready(n int64) error {
	if w.granted < n {
		step := max(n, min(roomStep, w.s.packSize/2))
		if err := w.s.room(step, w.id); err != nil {
			return err
		}
		w.granted += step
	}
	if len(w.packs) > 0 && w.packs[len(w.packs)-1].end < w.s.packSize {
		return nil
	}
	if err := w.flush(); err != nil {
		return err
	}
	p, err := w.s.takePack()
	if err != nil {
		return diskError(err)
	}
	w.packs = append(w.packs, &extent{p, p.size, p.size})
	to := io.NewOffsetWriter(p.file, p.size)
	if w.out == nil {
		w.out = bufio.NewWriterSize(to, writeBuffer)
	} else {
		w.out.Reset(to)
	}
	return nil
}

// flush puts what was written to the last pack on the disk.
func (w *writer) flush() error {
	if w.out == nil {
		return nil
	}
	if err := errors.Join(w.out.Flush(), w.packs[len(w.packs)-1].pack.file.Sync()); err != nil {
		return diskError(err)
	}
	return nil
}

// diskError makes a full disk one with a full store.
func diskError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		err = fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	return fmt.Errorf("storing chunks: %w", err)
}

// order puts the holds in the order of the manifest, of whose chunks they are. [ErrDamaged]: not all are what they were;
// there may be two places of one chunk then.
func (w *writer) order(m replica.Manifest) error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	of := make(map[replica.Sum]*place, len(w.held))
	for _, p := range w.held {
		if p.bad {
			return ErrDamaged
		}
		of[p.sum] = p
	}
	for i, c := range m.Chunks {
		w.held[i] = of[c.Sum]
	}
	return nil
}

// publish puts all chunks on the disk and lets others know of them. The holds stay.
func (w *writer) publish() error {
	if err := w.flush(); err != nil {
		return err
	}
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	// Of a chunk that another writer published meanwhile, its copy is held in place of ours.
	double := map[*place]*place{}
	for sum, p := range w.fresh {
		if other := s.chunks[sum]; other != nil {
			double[p] = other
			other.holds += p.holds
			continue
		}
		s.chunks[sum] = p
		p.pack.live += p.record()
	}
	if len(double) > 0 {
		for i, p := range w.held {
			if other := double[p]; other != nil {
				w.held[i] = other
			}
		}
	}
	clear(w.fresh)
	w.leave()
	return nil
}

// leave gives the packs back, as long as they were told to be. Called with mu.
func (w *writer) leave() {
	s := w.s
	for _, e := range w.packs {
		e.pack.size, e.pack.taken = e.end, false
		if !e.pack.needed() {
			s.discard(e.pack)
		}
	}
	s.used -= w.granted
	w.granted, w.packs, w.out = 0, nil, nil
}

// cancel takes back what was written and not published, and ends all holds.
func (w *writer) cancel() {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range w.packs {
		// Bytes that cannot be cut off stand behind the end: the next writer overwrites them.
		_ = e.pack.file.Truncate(e.begin)
		w.granted += e.end - e.begin
		e.end = e.begin
	}
	w.held = w.published()
	clear(w.fresh)
	w.finish()
}

// finish ends all that the writer has. Called with mu.
func (w *writer) finish() {
	s := w.s
	s.release(w.held)
	w.held = nil
	w.leave()
	if s.writing[w.id]--; s.writing[w.id] <= 0 {
		delete(s.writing, w.id)
	}
}

// published gives the holds of what others know of.
func (w *writer) published() []*place {
	kept := w.held[:0]
	for _, p := range w.held {
		if w.fresh[p.sum] != p {
			kept = append(kept, p)
		}
	}
	return kept
}
