package tsnode

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// loadID reads this node's random id, and makes it where there is none. One that is damaged is replaced: the others then
// see a new node, and forget the old one as they forget any that is gone.
func loadID(dir string, log *slog.Logger) (string, error) {
	path := filepath.Join(dir, "id")
	b, err := readPlain(path)
	if id := strings.TrimSpace(string(b)); err == nil && isID(id) {
		return id, nil
	}
	if err == nil {
		log.Warn("the node's id is damaged and replaced", "file", path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the node's id: %w: make it readable to this user", err)
	}
	var raw [16]byte
	rand.Read(raw[:]) // never fails
	id := hex.EncodeToString(raw[:])
	if err := writeWhole(path, id+"\n"); err != nil {
		return "", fmt.Errorf("keeping the node's id: %w: make the state directory writable to this user", err)
	}
	return id, nil
}

// isID reports whether s is an id as loadID makes them.
func isID(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == 16 && s == strings.ToLower(s)
}

// readPlain reads a file as this package writes them. Of a pipe, whose reader would wait for ever, there is nothing to read.
func readPlain(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if stat, err := f.Stat(); err != nil || !stat.Mode().IsRegular() {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, 1<<10))
}

// writeWhole writes a file of the owner's alone that is there in full or not at all.
func writeWhole(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".id-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
