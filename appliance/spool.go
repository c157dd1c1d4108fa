package appliance

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// spoolRoom is what must be free in memory for slot files to go there: a real conversation's state has 1 to 3 GiB, and one
// may be written while another lies there to be restored. On a large machine an eighth of its memory must be free as
// well, since the engines that are about to start want some of it.
const spoolRoom = 4 << 30

// maxPlace bounds the file of the choice: the id of a start and a path.
const maxPlace = 8 << 10

// spool is the folder that engines write slots to and restore them from. It is in memory where there is room: while a slot
// is written its engine does nothing else, so a disk would hold up every stream, and wear out by what is kept for a moment.
//
// Engines outlive the node and keep the folder they were started with, so the choice holds until the machine starts anew,
// or until a run has ended all engines.
type spool struct {
	dir   string
	place place
}

// place is all that a spool is chosen by.
type place struct {
	state string // the state directory
	shm   string // where memory-backed folders are made
	boot  string // tells one start of the machine from another; "" = unknown
	off   bool   // no slot is ever saved
	room  func(shm string) (free, memory int64)
}

// pickSpool chooses and makes nothing yet.
func pickSpool(p place) *spool {
	s := &spool{dir: p.state, place: p}
	dir := p.inMemory()
	if dir == "" || p.recorded() == p.state {
		return s
	}
	there, err := ours(dir)
	if err == nil && (there || !p.off && p.roomy()) {
		s.dir = dir
	}
	return s
}

// inMemory is the folder this node would have in memory, the same at each start; "" where there is none to be had.
func (p place) inMemory() string {
	if p.shm == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(p.state))
	return filepath.Join(p.shm, fmt.Sprintf("viiwork-%d-%s", os.Getuid(), hex.EncodeToString(sum[:4])))
}

func (p place) roomy() bool {
	free, memory := p.room(p.shm)
	return free >= max(spoolRoom, memory/8)
}

func (p place) recordFile() string { return filepath.Join(p.state, "spool") }

// recorded is what was chosen since the machine started; "" = nothing.
func (p place) recorded() string {
	text, err := readPlace(p.recordFile())
	boot, dir, ok := strings.Cut(strings.TrimSpace(text), " ")
	if err != nil || !ok || boot == "" || boot != p.boot {
		return ""
	}
	return dir
}

// readPlace reads the file of the choice. A pipe in its place would keep the node from starting for ever.
func readPlace(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(err, errors.New("it is no plain file"))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxPlace))
	return string(text), err
}

// ours says whether the folder is there. One that is not ours is an error: the place is everybody's, and what lies in slot
// files is what people wrote.
func ours(dir string) (there bool, err error) {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case !info.IsDir() || !ownedByUs(info) || info.Mode().Perm() != 0o700:
		return false, fmt.Errorf("%s is not a folder of this user alone", dir)
	}
	return true, nil
}

// open makes the folder, and remembers the choice. The state directory must be there and locked.
func (s *spool) open() error {
	if s.dir == s.place.state {
		return s.remember()
	}
	err := os.Mkdir(s.dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		_, err = ours(s.dir)
	}
	if err != nil {
		return fmt.Errorf("making the folder for slot files: %w: remove it, or set kv_share.mode: off", err)
	}
	// Of a run that kept them on disk: that folder is no engine's any more.
	if err := os.RemoveAll(filepath.Join(s.place.state, "slots")); err != nil {
		return fmt.Errorf("removing old slot files: %w: remove the folder by hand", err)
	}
	return s.remember()
}

func (s *spool) remember() error {
	if s.place.shm == "" || s.place.boot == "" {
		return nil
	}
	path, text := s.place.recordFile(), s.place.boot+" "+s.dir+"\n"
	if old, err := readPlace(path); err == nil && old == text {
		return nil
	}
	err := os.WriteFile(path+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("remembering the folder for slot files: %w: make the state directory writable to this user", err)
	}
	return nil
}

// close removes the folder, and the memory of the choice, when no engine is left that was started with it.
func (s *spool) close(enginesLeft bool) {
	if enginesLeft {
		return
	}
	if s.dir != s.place.state {
		os.RemoveAll(s.dir)
	}
	os.Remove(s.place.recordFile())
}
