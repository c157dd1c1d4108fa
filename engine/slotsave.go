package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// ErrUnknownBackend: no backend of that id is wanted.
var ErrUnknownBackend = errors.New("no such backend on this machine")

// AskSlots asks a backend's engine what its slots hold. The answer comes between two steps of the engine, in a long
// prefill after seconds. Who asks often keeps llama-server from noticing clients that left: not without need. Errors:
// ErrUnknownBackend, ErrNotReady, and those of the connection.
func (e *Engine) AskSlots(ctx context.Context, backend string) ([]SlotState, error) {
	e.mu.Lock()
	b := e.backend(backend)
	var t Target
	ready := false
	if b != nil {
		t, ready = b.target, !b.readySince.IsZero()
	}
	e.mu.Unlock()
	switch {
	case b == nil:
		return nil, fmt.Errorf("%w: %.200q", ErrUnknownBackend, backend)
	case !ready:
		return nil, ErrNotReady
	}
	ctx, cancel := context.WithTimeout(ctx, slotsTime)
	defer cancel()
	return e.cfg.Dialect.Slots(ctx, t)
}

// SlotFolder is where a backend's engine keeps slot files; false when it keeps none, as a server somebody else runs.
func (e *Engine) SlotFolder(backend string) (string, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.backend(backend)
	if b == nil || !b.savesSlots() {
		return "", false
	}
	return b.slotDir, true
}

// KVTraits tells what must be equal for a slot file of this backend to be of use elsewhere; false while the backend is
// not ready, and when it saves no slots.
func (e *Engine) KVTraits(backend string) (KVTraits, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.backend(backend)
	if b == nil || b.readySince.IsZero() || !b.savesSlots() {
		return KVTraits{}, false
	}
	return b.kvTraits(b.props), true
}

// kvTraits wants the lock held. p is what the engine says of itself.
func (b *backend) kvTraits(p Props) KVTraits {
	t := b.traits
	t.Build, t.Slots = cmp.Or(p.Build, b.build), p.Slots
	if t.Slots <= 0 {
		t.Slots = b.model.Parallel
	}
	return t
}

// SaveSlot writes what a slot holds to a new file in the backend's folder, which the caller removes; on an error there is
// none. Nothing else happens in the engine meanwhile, for anybody. A busy slot is saved when it is idle.
//
// When ctx ends, the engine may still write the file; it is removed then. Errors: ErrUnknownBackend, ErrNotReady,
// ErrNoSlotFiles, ErrSlotRefused, and what became of the engine.
func (e *Engine) SaveSlot(ctx context.Context, backend string, slot int) (string, SlotFile, error) {
	b, w, ctx, err := e.beginWork(ctx, backend, slot)
	if err != nil {
		return "", SlotFile{}, fmt.Errorf("saving slot %d: %w", slot, err)
	}
	path := filepath.Join(w.home.slotDir, slotFileName())
	f, err := b.do(ctx, w, func(ctx context.Context) (SlotFile, error) {
		if err := makeSlotDir(w.home.slotDir); err != nil {
			return SlotFile{}, err
		}
		return e.cfg.Dialect.(SlotFiles).Save(ctx, w.target, slot, filepath.Base(path))
	})
	if err == nil {
		err = keepPrivate(path, f.Bytes)
	}
	if err != nil {
		b.leaveBehind(path)
		return "", SlotFile{}, fmt.Errorf("saving slot %d: %w", slot, err)
	}
	return path, f, nil
}

// RestoreSlot fills a slot from a file in the backend's folder, in place of what it held; when that fails the slot is
// empty. The file stays the caller's. Errors as with SaveSlot.
func (e *Engine) RestoreSlot(ctx context.Context, backend string, slot int, path string) (SlotFile, error) {
	b, w, ctx, err := e.beginWork(ctx, backend, slot)
	if err != nil {
		return SlotFile{}, fmt.Errorf("restoring slot %d: %w", slot, err)
	}
	if err := liesIn(w.home.slotDir, path); err != nil { // as when another engine took its place meanwhile
		b.endWork(w, false)
		return SlotFile{}, fmt.Errorf("restoring slot %d: %w", slot, err)
	}
	f, err := b.do(ctx, w, func(ctx context.Context) (SlotFile, error) {
		return e.cfg.Dialect.(SlotFiles).Restore(ctx, w.target, slot, filepath.Base(path))
	})
	if err != nil {
		return SlotFile{}, fmt.Errorf("restoring slot %d: %w", slot, err)
	}
	return f, nil
}

const slotFileEnd = ".kv"

func slotFileName() string {
	var raw [12]byte
	rand.Read(raw[:]) // never fails
	return hex.EncodeToString(raw[:]) + slotFileEnd
}

// makeSlotDir makes a backend's folder again where somebody took it away: what clears the memory-backed file systems of
// users who logged out does.
func makeSlotDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the folder for slot files: %w: allow this user to write there, or set node.state_dir", err)
	}
	return nil
}

// liesIn makes sure that path is a plain file of that folder: the engine is only told its name.
func liesIn(dir, path string) error {
	if filepath.Dir(path) != filepath.Clean(dir) {
		return errors.New("the file does not lie in the backend's folder")
	}
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no plain file")
	}
	return err
}

// keepPrivate makes sure that a file the engine wrote is whole and readable to this user alone: the engine leaves the mode
// to its umask, which in a container is not ours.
func keepPrivate(path string, size int64) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("the engine wrote its file where this node sees none: restart the engine")
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("the engine's file is no plain file")
	case info.Size() != size:
		return fmt.Errorf("the engine wrote %d of %d bytes: make room in the folder for slot files", info.Size(), size)
	case info.Mode().Perm()&0o077 != 0:
		return os.Chmod(path, 0o600)
	}
	return nil
}

// forgetAfter is for how long a file is looked for whose save was given up: its slot may be busy for long before.
const forgetAfter = time.Hour

// leaveBehind removes a file that nobody wants, now and if it should come later.
func (b *backend) leaveBehind(path string) {
	os.Remove(path)
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	b.unwanted[path] = time.Now()
}

// tidy looks again for files that nobody wants.
func (b *backend) tidy(now time.Time) {
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	for path, since := range b.unwanted {
		if os.Remove(path) == nil || now.Sub(since) > forgetAfter {
			delete(b.unwanted, path)
		}
	}
}
