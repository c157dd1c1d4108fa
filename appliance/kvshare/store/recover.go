package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"viiwork/appliance/kvshare/replica"
)

// recover reads packs and replicas. What is no file of ours, or is broken, is thrown away and named.
func (s *Store) recover() error {
	for _, dir := range []string{packDir, replicaDir} {
		if err := s.folder(dir); err != nil {
			return err
		}
	}
	packs, err := s.list(packDir)
	if err != nil {
		return err
	}
	for _, name := range packs {
		if err := s.recoverPack(name); err != nil {
			s.throwAway(filepath.Join(packDir, name), err)
		}
	}
	replicas, err := s.list(replicaDir)
	if err != nil {
		return err
	}
	for _, name := range replicas {
		if err := s.recoverReplica(name); err != nil {
			s.throwAway(filepath.Join(replicaDir, name), err)
		}
	}
	s.recoverRest()
	if err := s.room(0, id{}); err != nil {
		s.cfg.Log.Debug("the store of replicas has no room", "error", err)
	}
	return nil
}

// folder makes one of our folders, in place of anything that is none.
func (s *Store) folder(name string) error {
	at, err := s.root.Lstat(name)
	if err == nil && !at.IsDir() {
		s.throwAway(name, errors.New("it is no folder"))
	}
	if err = s.root.Mkdir(name, 0o700); errors.Is(err, fs.ErrExist) {
		err = s.root.Chmod(name, 0o700)
	}
	return err
}

// list gives the plain files of a folder, and throws away all else.
func (s *Store) list(dir string) ([]string, error) {
	f, err := s.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.Type().IsRegular() {
			s.throwAway(filepath.Join(dir, e.Name()), errors.New("it is no plain file"))
			continue
		}
		names = append(names, e.Name())
	}
	return names, nil
}

// throwAway removes something below our folder; a link is removed and not followed.
func (s *Store) throwAway(name string, why error) {
	s.cfg.Log.Warn("a broken file in the store of replicas is thrown away", "file", filepath.Join(s.cfg.Dir, name), "error", why)
	if err := s.root.RemoveAll(name); err != nil {
		s.cfg.Log.Warn("a broken file in the store of replicas cannot be deleted", "file", filepath.Join(s.cfg.Dir, name), "error", err)
	}
}

var errNoPack = errors.New("no pack of replicas")

func (s *Store) recoverPack(name string) error {
	p := &pack{}
	if _, err := fmt.Sscanf(name, packName, &p.number); err != nil || filepath.Base(packFile(p.number)) != name || p.number == 0 {
		return errNoPack
	}
	f, err := s.root.OpenFile(filepath.Join(packDir, name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	p.file = f
	if err = errors.Join(f.Chmod(0o600), s.readPack(p)); err != nil {
		return errors.Join(err, f.Close())
	}
	s.packs[p.number] = p
	s.used += p.size
	s.lastPack = max(s.lastPack, p.number)
	return nil
}

// readPack takes the chunks of a pack into the index, without a hold yet, and cuts off what a crash left at its end.
func (s *Store) readPack(p *pack) error {
	at, err := p.file.Stat()
	if err != nil {
		return err
	}
	mark := make([]byte, len(packMark))
	if _, err := p.file.ReadAt(mark, 0); err != nil || string(mark) != packMark {
		return errNoPack
	}
	p.size = int64(len(packMark))
	b := make([]byte, recordFrame)
	for p.size+int64(len(b)) < at.Size() {
		if _, err := p.file.ReadAt(b, p.size); err != nil {
			return err
		}
		sum, size, ok := readFrame(b)
		c := &place{sum: sum, size: size, pack: p, at: p.size + int64(recordFrame)}
		if !ok || c.at+int64(size) > at.Size() {
			break
		}
		if s.chunks[sum] == nil {
			s.chunks[sum] = c
			p.live += c.record()
		}
		p.size += c.record()
	}
	if p.size < at.Size() {
		s.cfg.Log.Debug("the end of a pack is cut off", "bytes", at.Size()-p.size)
		return p.file.Truncate(p.size)
	}
	return nil
}

func (s *Store) recoverReplica(name string) error {
	raw, err := hex.DecodeString(name)
	if err != nil || len(raw) != len(id{}) {
		return errNoReplica
	}
	i := id(raw)
	b, err := s.readFile(i.file(), int64(mostReplica))
	if err != nil {
		return err
	}
	n, m, err := readDocument(b)
	if err == nil && (idOf(n, m.Key) != i || i.file() != filepath.Join(replicaDir, name)) {
		err = errNoReplica
	}
	if err != nil {
		return err
	}
	at, err := s.root.Lstat(i.file())
	if err != nil {
		return err
	}
	used := at.ModTime()
	if now := s.cfg.Now(); used.After(now) {
		used = now
	}
	r := &kept{Replica: Replica{n, m.Key, m.Tokens, m.Size, used}, file: int64(len(b)), places: make([]*place, 0, len(m.Chunks))}
	for _, c := range m.Chunks {
		p := s.chunks[c.Sum]
		if p == nil || p.size != c.Size {
			return ErrIncomplete
		}
		r.places = append(r.places, p)
	}
	if s.expired(r) {
		return errors.New("nobody used it for long")
	}
	for _, p := range r.places {
		p.holds++
	}
	s.replicas[i] = r
	s.used += r.file
	return s.root.Chmod(i.file(), 0o600)
}

// recoverRest keeps chunks that no replica has, as what is left of a transfer that broke off. A loss of power can leave
// others than were written, so they are read.
func (s *Store) recoverRest() {
	buf := make([]byte, replica.MaxChunk)
	rest := leftover{until: s.cfg.Now().Add(s.cfg.Linger)}
	var lost []*place
	for _, p := range s.chunks {
		if p.holds > 0 {
			continue
		}
		p.holds++
		if _, err := p.spot().read(buf); err != nil {
			lost = append(lost, p)
		} else {
			rest.places = append(rest.places, p)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(rest.places) > 0 {
		s.leftover = append(s.leftover, rest)
	}
	s.release(lost)
	for _, p := range s.packs {
		if !p.needed() {
			s.discard(p)
		}
	}
}
