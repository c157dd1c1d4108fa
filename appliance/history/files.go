package history

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

var errTooLong = errors.New("the file is longer than any of ours")

// unfinished are files that were to replace others when the node was killed.
const unfinished = ".new-*"

// sweep removes what earlier runs did not get finished, or each of them would leave some more.
func sweep(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, unfinished)) // the pattern is a good one
	for _, path := range left {
		_ = os.Remove(path)
	}
}

// openOwn opens a file of ours for writing. What stands in its place and is no file goes: a pipe would keep us waiting for
// its other end.
func openOwn(path string, flag int) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, flag|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
}

// readSome reads a whole file of at most so many bytes. It waits for none: of a pipe there is nothing to read.
func readSome(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errTooLong
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = errTooLong
	}
	return data, err
}

// replace writes a file whole or not at all.
func replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), unfinished)
	if err != nil {
		return fmt.Errorf("storing the history: %w", err)
	}
	defer os.Remove(f.Name()) // no more there if all went well
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("storing the history: %w", err)
	}
	return nil
}
