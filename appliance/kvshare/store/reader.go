package store

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"viiwork/appliance/kvshare/replica"
)

// Reader reads one replica as it was when the reader was made, whatever becomes of it since. Until it is closed the disk
// keeps the packs in which it lies.
type Reader struct {
	s        *Store
	manifest replica.Manifest
	spots    []spot
	pins     map[*pack]int
}

// spot is a copy of a place, for use without the lock.
type spot struct {
	replica.Chunk
	pack *pack
	at   int64
}

func (p *place) spot() spot { return spot{replica.Chunk{Sum: p.sum, Size: p.size}, p.pack, p.at} }

// Reader opens a replica, which is a use of it. The caller closes it. Errors: [ErrNotFound], [ErrDamaged].
func (s *Store) Reader(n Name, k replica.Key) (*Reader, error) {
	r, err := s.reader(n, k)
	if err != nil {
		return nil, fmt.Errorf("reading a replica: %w", err)
	}
	return r, nil
}

func (s *Store) reader(n Name, k replica.Key) (*Reader, error) {
	i := idOf(n, k)
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.replicas[i]
	if have == nil || s.expired(have) {
		return nil, ErrNotFound
	}
	m, err := s.manifest(i, have)
	if err != nil {
		s.cfg.Log.Warn("a replica cannot be read and is thrown away", "error", err)
		s.drop(i)
		return nil, ErrDamaged
	}
	s.touch(i, have)
	r := &Reader{s: s, manifest: m, spots: make([]spot, len(m.Chunks)), pins: map[*pack]int{}}
	for j, p := range have.places {
		r.spots[j] = p.spot()
		p.pack.pins++
		r.pins[p.pack]++
	}
	return r, nil
}

// manifest reads a replica's file, of which something may have become since it was written.
func (s *Store) manifest(i id, have *kept) (replica.Manifest, error) {
	b, err := s.readFile(i.file(), int64(mostReplica))
	if err != nil {
		return replica.Manifest{}, err
	}
	n, m, err := readDocument(b)
	same := err == nil && n == have.Name && m.Key == have.Key && slices.EqualFunc(m.Chunks, have.places, func(c replica.Chunk, p *place) bool {
		return c.Sum == p.sum && c.Size == p.size
	})
	if err == nil && !same {
		err = errNoReplica
	}
	return m, err
}

// readFile reads a file of ours of limit bytes at most.
func (s *Store) readFile(name string, limit int64) ([]byte, error) {
	f, err := s.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = errNoReplica
	}
	return b, err
}

// Manifest tells what the replica is made of.
func (r *Reader) Manifest() replica.Manifest { return r.manifest }

// Chunk reads chunk i into buf, which has room for replica.MaxChunk bytes, and gives the bytes read. Their hash has been
// checked. On [ErrDamaged] all replicas with that chunk are gone.
func (r *Reader) Chunk(i int, buf []byte) ([]byte, error) {
	if i < 0 || i >= len(r.spots) {
		return nil, fmt.Errorf("reading chunk %d: %w", i, ErrNotFound)
	}
	b, err := r.s.read(r.spots[i], buf)
	if err != nil {
		return nil, fmt.Errorf("reading chunk %d: %w", i, err)
	}
	return b, nil
}

// Close ends the use of the replica.
func (r *Reader) Close() {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.unpin()
}

func (r *Reader) unpin() {
	for p, n := range r.pins {
		r.s.unpin(p, n)
	}
	r.pins = nil
}

// Chunk reads a chunk by its hash, whatever replica it is of; otherwise it is as [Reader.Chunk].
func (s *Store) Chunk(sum replica.Sum, buf []byte) ([]byte, error) {
	s.mu.Lock()
	p := s.chunks[sum]
	if p == nil {
		s.mu.Unlock()
		return nil, fmt.Errorf("reading a chunk: %w", ErrNotFound)
	}
	at := p.spot()
	at.pack.pins++
	s.mu.Unlock()
	b, err := s.read(at, buf)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unpin(at.pack, 1)
	if err != nil {
		return nil, fmt.Errorf("reading a chunk: %w", err)
	}
	return b, nil
}

// read reads a chunk whose pack is pinned, and believes it only when its hash is right.
func (s *Store) read(c spot, buf []byte) ([]byte, error) {
	b, err := c.read(buf)
	if err == nil || errors.Is(err, os.ErrClosed) {
		return b, err
	}
	s.damaged(c, err)
	return nil, ErrDamaged
}

var errHash = errors.New("its hash is another")

func (c spot) read(buf []byte) ([]byte, error) {
	b := buf[:c.Size]
	if _, err := c.pack.file.ReadAt(b, c.at); err != nil {
		return nil, err
	}
	if sha256.Sum256(b) != c.Sum {
		return nil, errHash
	}
	return b, nil
}

// damaged throws away a chunk and all replicas that need it.
func (s *Store) damaged(c spot, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bad := s.chunks[c.Sum]
	if bad == nil || bad.pack != c.pack || bad.at != c.at {
		return // known already, or written anew since
	}
	bad.bad = true
	delete(s.chunks, c.Sum)
	dropped := 0
	for i, r := range s.replicas {
		for _, p := range r.places {
			if p == bad {
				s.drop(i)
				dropped++
				break
			}
		}
	}
	s.cfg.Log.Warn("a chunk of a replica is not what was written; the replicas with it are thrown away",
		"file", packFile(c.pack.number), "at", c.at, "replicas", dropped, "error", cause)
}
