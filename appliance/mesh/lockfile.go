package mesh

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
)

// store writes the file whole or not at all.
func (s lockState) store(path string) error {
	if path == "" {
		return nil
	}
	text, err := json.Marshal(s)
	if err == nil {
		err = replaceFile(path, text)
	}
	if err != nil {
		return fmt.Errorf("storing the lock of the mesh: %w", err)
	}
	return nil
}

// load reads what an earlier run kept. Where nothing is kept this node may be new, and the mesh it joins may have a holder whose
// majority did not need it: it gives no voice until that one's word would have lapsed. The same goes for a file that cannot
// be read, which is put aside.
func (l *Lock) load() {
	s, err := readLock(l.path)
	if err != nil {
		l.quiet = time.Now().Add(lockLapse)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		l.cfg.Log.Warn("the lock of the mesh that was kept cannot be read and is set aside", "file", l.path, "error", err)
		if err := os.Rename(l.path, l.path+".aside"); err != nil {
			l.cfg.Log.Error("the file of the mesh's lock cannot be set aside", "error", err)
		}
	default:
		l.state = s
		for _, id := range s.Known {
			l.seen[id] = time.Now()
		}
	}
}

func readLock(path string) (s lockState, err error) {
	f, err := openKept(path)
	if err != nil {
		return s, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxLockBody+1))
	switch {
	case err != nil:
		return s, fmt.Errorf("reading the lock of the mesh: %w", err)
	case len(text) > maxLockBody || json.Unmarshal(text, &s) != nil || !s.sound():
		return lockState{}, errors.New("it is not what viiwork wrote")
	}
	return s, nil
}

func (s lockState) sound() bool {
	if len(s.Known) > maxMembers || slices.ContainsFunc(s.Known, func(id string) bool { return !isID(id) }) {
		return false
	}
	return s.Term <= maxTerm && (s.Owner == "" || isID(s.Owner)) && isText(s.Name) && isText(s.Token) && s.Note.sound(maxTerm)
}
