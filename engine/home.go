package engine

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// home is what a backend owns on disk, in one of its berths.
type home struct {
	keyFile, slotDir string
	key              string
	newKey           bool
}

func (e *Engine) homeOf(berth string) home {
	name := SafeName(berth)
	return home{
		keyFile: filepath.Join(e.cfg.StateDir, "engines", name+".key"),
		slotDir: filepath.Join(e.cfg.Spool, "slots", name),
	}
}

// makeHome makes the folders of a backend's berth, and its key unless an earlier run left one: a process that is to be adopted
// demands the key it was started with.
func (e *Engine) makeHome(berth string) (home, error) {
	h := e.homeOf(berth)
	for _, dir := range []string{filepath.Dir(h.keyFile), h.slotDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return h, fmt.Errorf("making the state folder: %w: allow this user to write there, or set node.state_dir", err)
		}
	}
	if key, ok := readKey(h.keyFile); ok {
		h.key = key
		return h, nil
	}
	var raw [32]byte
	rand.Read(raw[:]) // never fails
	h.key, h.newKey = hex.EncodeToString(raw[:]), true
	if err := writeKey(h.keyFile, h.key); err != nil {
		return h, fmt.Errorf("writing the engine's key: %w: allow this user to write there, or set node.state_dir", err)
	}
	return h, nil
}

// readKey accepts only what writeKey wrote, and nothing that others could have read.
func readKey(path string) (string, bool) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || info.Size() > 256 {
		return "", false
	}
	raw, err := os.ReadFile(path)
	key := strings.TrimSpace(string(raw))
	if b, herr := hex.DecodeString(key); err != nil || herr != nil || len(b) != 32 {
		return "", false
	}
	return key, true
}

func writeKey(path, key string) error {
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !os.IsNotExist(err) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(key + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// clearSlots removes the files that a save or restore cut short has left: nobody knows of them any more, and they hold
// what people wrote.
func (e *Engine) clearSlots(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // there is none, or none that an engine could write to
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			e.cfg.Log.Warn("a file that an engine left cannot be deleted", "folder", dir, "error", err)
		}
	}
}

// clearUnwantedSlots removes the folders of backends that an earlier run had and this one has not.
func (e *Engine) clearUnwantedSlots() {
	if len(e.cfg.Runners) == 0 {
		return
	}
	entries, err := os.ReadDir(filepath.Join(e.cfg.Spool, "slots"))
	if err != nil {
		return
	}
	wanted := map[string]bool{}
	e.mu.Lock()
	for _, en := range e.order {
		for _, b := range en.backends {
			for _, name := range berths(b.id) {
				wanted[SafeName(name)] = true
			}
		}
	}
	e.mu.Unlock()
	for _, entry := range entries {
		if !wanted[entry.Name()] {
			os.RemoveAll(filepath.Join(e.cfg.Spool, "slots", entry.Name()))
		}
	}
}

// clearAllSlots is clearSlots for all backends, at the end of a run.
func (e *Engine) clearAllSlots() {
	e.mu.Lock()
	var dirs []string
	for _, en := range e.order {
		for _, b := range en.backends {
			for _, name := range berths(b.id) {
				if !b.external() {
					dirs = append(dirs, e.homeOf(name).slotDir)
				}
			}
		}
	}
	e.mu.Unlock()
	for _, dir := range dirs {
		e.clearSlots(dir)
	}
}

// clearHome removes what a retired backend leaves: its key opens nothing any more, and its saved slots hold what people
// wrote.
func (e *Engine) clearHome(name string) {
	h := e.homeOf(name)
	for _, err := range []error{os.RemoveAll(h.keyFile), os.RemoveAll(h.slotDir)} {
		if err != nil {
			e.cfg.Log.Warn("what a removed backend left cannot be deleted", "backend", name, "error", err)
		}
	}
}
