package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"time"

	"viiwork/appliance/kvshare/replica"
)

// A pack is its mark and then records: the size of a chunk, its SHA-256, a checksum of these two, and the chunk. Records
// are appended and never changed; a pack of which little is needed still is written anew.
const (
	packMark    = "vwkvpak1"
	recordFrame = 4 + len(replica.Sum{}) + 4
	packName    = "%016x.pack"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// pack is an open pack file. All fields but the first two are guarded by Store.mu.
type pack struct {
	number uint64
	file   *os.File

	size  int64     // bytes that are told of; a writer's come at its end
	live  int64     // bytes of records that are held
	since time.Time // when the first of its bytes was no longer needed; zero = all are
	taken bool      // a writer appends to it, or it is being written anew
	pins  int       // readers
	gone  bool      // unlinked; closed when the last reader leaves
}

// needed tells that all of a pack is.
func (p *pack) needed() bool { return p.live > 0 && p.live == p.size-int64(len(packMark)) }

// place is where a chunk is. All fields but the first are guarded by Store.mu.
type place struct {
	sum   replica.Sum
	size  uint32
	holds int32
	bad   bool // the disk does not give back what was written
	pack  *pack
	at    int64 // of the chunk, behind its frame
}

func (p *place) record() int64 { return int64(recordFrame) + int64(p.size) }

func frame(sum replica.Sum, size uint32) []byte {
	b := make([]byte, 0, recordFrame)
	b = binary.BigEndian.AppendUint32(b, size)
	b = append(b, sum[:]...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// readFrame reads what frame wrote; ok is false for anything else.
func readFrame(b []byte) (sum replica.Sum, size uint32, ok bool) {
	end := recordFrame - 4
	size = binary.BigEndian.Uint32(b)
	ok = size > 0 && size <= replica.MaxChunk && binary.BigEndian.Uint32(b[end:]) == crc32.Checksum(b[:end], castagnoli)
	return replica.Sum(b[4:end]), size, ok
}

func packFile(number uint64) string { return filepath.Join(packDir, fmt.Sprintf(packName, number)) }

// newPack makes an empty pack, taken by the caller.
func (s *Store) newPack() (*pack, error) {
	s.mu.Lock()
	s.lastPack++
	p := &pack{number: s.lastPack, taken: true, size: int64(len(packMark))}
	s.mu.Unlock()
	f, err := s.root.OpenFile(packFile(p.number), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	p.file = f
	if _, err = f.WriteString(packMark); err == nil {
		err = s.syncDir(packDir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), s.root.Remove(packFile(p.number)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.packs[p.number] = p
	s.used += p.size
	return p, nil
}

// takePack gives a pack that has room left, to one writer at a time.
func (s *Store) takePack() (*pack, error) {
	s.mu.Lock()
	for _, p := range s.packs {
		if !p.taken && p.size < s.packSize {
			p.taken = true
			s.mu.Unlock()
			return p, nil
		}
	}
	s.mu.Unlock()
	return s.newPack()
}

func (s *Store) syncDir(name string) error {
	d, err := s.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// release ends a hold of each place. Called with mu.
func (s *Store) release(places []*place) {
	for _, p := range places {
		p.holds--
		if p.holds > 0 {
			continue
		}
		if s.chunks[p.sum] == p {
			delete(s.chunks, p.sum)
		}
		p.pack.live -= p.record()
		s.discard(p.pack)
	}
}

// discard deletes a pack of which nothing is needed, and otherwise remembers that something is not. Called with mu.
func (s *Store) discard(p *pack) {
	if p.since.IsZero() {
		p.since = s.cfg.Now()
	}
	if p.live > 0 || p.taken || p.gone {
		return
	}
	p.gone = true
	delete(s.packs, p.number)
	s.used -= p.size
	if err := s.root.Remove(packFile(p.number)); err != nil {
		s.cfg.Log.Warn("a pack of replicas cannot be deleted", "file", filepath.Join(s.cfg.Dir, packFile(p.number)), "error", err)
	}
	s.unpin(p, 0)
}

// unpin ends the use of a pack by n readers. Called with mu.
func (s *Store) unpin(p *pack, n int) {
	p.pins -= n
	if p.gone && p.pins == 0 {
		p.file.Close()
	}
}
