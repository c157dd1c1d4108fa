package native

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"viiwork/engine"
)

// recordLimit bounds what is read of a record: ours are a few hundred bytes.
const recordLimit = 64 << 10

// record is what is kept of a process on disk.
type record struct {
	PID     int    `json:"pid"`
	Started string `json:"started"` // as startTime tells it; opaque
	Port    int    `json:"port"`
	Backend string `json:"backend"`
	Hash    string `json:"hash"`
}

func (rec record) url() string { return fmt.Sprintf("http://127.0.0.1:%d", rec.Port) }

// Answers that callers tell from a failure to look: what cannot be read now may well be alive.
var (
	errGone      = errors.New("no such process")
	errBadRecord = errors.New("not a record of ours")
)

// lives reports whether the very process that was recorded still runs.
func (rec record) lives() (bool, error) {
	started, over, err := startTime(rec.PID)
	if errors.Is(err, errGone) {
		return false, nil
	}
	return err == nil && !over && started == rec.Started, err
}

// openRecord returns errBadRecord for what is no plain file: a pipe would have the node wait for ever, and a link tell of
// processes that are another's.
func openRecord(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO) { // a link, a socket
		return nil, fmt.Errorf("%w: no plain file", errBadRecord)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: no plain file", errBadRecord)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// readRecord returns errBadRecord for whatever this package did not write.
func readRecord(path string) (record, error) {
	f, err := openRecord(path)
	if err != nil {
		return record{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, recordLimit))
	if err != nil {
		return record{}, err
	}
	var rec record
	if err := json.Unmarshal(text, &rec); err != nil {
		return record{}, fmt.Errorf("%w: %w", errBadRecord, err)
	}
	// Signals go to the group -PID: 0 and 1 would be our own group, and everybody.
	if rec.PID < 2 || rec.Started == "" || rec.Port < 1 || rec.Port > 65535 {
		return record{}, fmt.Errorf("%w: incomplete", errBadRecord)
	}
	if filepath.Base(path) != engine.SafeName(rec.Backend)+".json" {
		return record{}, fmt.Errorf("%w: it has another backend's name", errBadRecord)
	}
	return rec, nil
}

// writeRecord replaces path in one step: a node that dies in the middle leaves the old record or the new one.
func writeRecord(path string, rec record) error {
	text, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".record-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(text, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// removeRecord removes path if it is still about rec: a next start of the same backend may have written its own.
func removeRecord(path string, rec record) error {
	now, err := readRecord(path)
	if err == nil && now != rec {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
