package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"viiwork/appliance/kvshare/replica"
)

// Added is what a save had to write.
type Added struct {
	Chunks int
	Bytes  int64
}

// Save keeps a state as the newest of a conversation. Until it returns the one before stays, and after an error it is
// still there. Errors: [ErrName], [replica.ErrKey], [ErrTooLarge], [ErrNoRoom], the disk's and those of reading the state.
func (s *Store) Save(ctx context.Context, n Name, k replica.Key, state *replica.State) (replica.Manifest, Added, error) {
	if err := s.acceptable(n, k, state.Size()); err != nil {
		return replica.Manifest{}, Added{}, fmt.Errorf("saving a replica: %w", err)
	}
	w := s.newWriter(idOf(n, k))
	m, err := state.Cut(ctx, k, w.add)
	added := Added{len(w.fresh), w.bytes}
	if err == nil {
		err = w.commit(n, m)
	}
	if err != nil {
		w.cancel()
		return replica.Manifest{}, Added{}, fmt.Errorf("saving a replica: %w", err)
	}
	return m, added, nil
}

func (s *Store) acceptable(n Name, k replica.Key, size int64) error {
	if !n.valid() {
		return ErrName
	}
	if err := k.Validate(); err != nil {
		return err
	}
	if size > s.cfg.Budget {
		return fmt.Errorf("%d bytes: %w", size, ErrTooLarge)
	}
	return nil
}

// commit publishes what was written and makes it the replica of its name. On an error the writer is to be canceled.
func (w *writer) commit(n Name, m replica.Manifest) error {
	if err := w.publish(); err != nil {
		return err
	}
	s := w.s
	content := document(n, m)
	temp, err := s.writeTemp(content, w.id)
	if err != nil {
		return err
	}
	old, err := w.replace(temp, &kept{Replica: Replica{n, m.Key, m.Tokens, m.Size, s.cfg.Now()}, file: int64(len(content))})
	if err != nil {
		return errors.Join(err, s.root.Remove(temp))
	}
	// Only when the new name is on the disk may the old one's chunks go.
	err = s.syncDir(replicaDir)
	s.mu.Lock()
	defer s.mu.Unlock()
	if old != nil {
		s.release(old.places)
	}
	w.finish()
	if err != nil {
		s.cfg.Log.Warn("a replica may not outlive a loss of power", "error", err)
	}
	return nil
}

// replace puts the file and the replica in their places, and gives the one that was there.
func (w *writer) replace(temp string, r *kept) (*kept, error) {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range w.held {
		if p.bad {
			s.used -= r.file
			return nil, ErrDamaged
		}
	}
	if err := s.root.Rename(temp, w.id.file()); err != nil {
		s.used -= r.file
		return nil, fmt.Errorf("storing a manifest: %w", err)
	}
	old := s.replicas[w.id]
	if old != nil {
		s.used -= old.file
	}
	r.places, w.held = w.held, nil
	s.replicas[w.id] = r
	s.touch(w.id, r)
	return old, nil
}

// writeTemp puts a file on the disk under a name that no run keeps. Its bytes are counted as used.
func (s *Store) writeTemp(content []byte, i id) (name string, err error) {
	if err := s.room(int64(len(content)), i); err != nil {
		return "", err
	}
	s.mu.Lock()
	s.lastTemp++
	name = filepath.Join(replicaDir, fmt.Sprintf(".new-%d", s.lastTemp))
	s.mu.Unlock()
	f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.Write(content)
		if err == nil {
			err = f.Sync()
		}
		if err = errors.Join(err, f.Close()); err == nil {
			return name, nil
		}
		err = errors.Join(err, s.root.Remove(name))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= int64(len(content))
	return "", diskError(err)
}

// The file of a replica: a mark, the length of its name (2 bytes), the name, and the manifest.
const (
	replicaMark = "vwkvrep1"
	mostReplica = len(replicaMark) + 2 + 64 + replica.MaxManifest
)

func document(n Name, m replica.Manifest) []byte {
	b := append([]byte(replicaMark), 0, 0)
	binary.BigEndian.PutUint16(b[len(replicaMark):], uint16(len(n)))
	return m.Append(append(b, n...))
}

var errNoReplica = errors.New("no file of a replica")

func readDocument(b []byte) (Name, replica.Manifest, error) {
	head := len(replicaMark) + 2
	if len(b) < head || string(b[:len(replicaMark)]) != replicaMark {
		return "", replica.Manifest{}, errNoReplica
	}
	end := head + int(binary.BigEndian.Uint16(b[len(replicaMark):]))
	if end > len(b) || !Name(b[head:end]).valid() {
		return "", replica.Manifest{}, errNoReplica
	}
	m, err := replica.Parse(b[end:])
	return Name(b[head:end]), m, err
}
