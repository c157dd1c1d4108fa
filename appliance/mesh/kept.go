package mesh

import (
	"errors"
	"os"
	"syscall"
)

// openKept opens a file that this node keeps itself. A pipe in its place would keep the node from starting for ever.
func openKept(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if stat, err := f.Stat(); err != nil || !stat.Mode().IsRegular() {
		return nil, errors.Join(err, errors.New("it is no plain file"), f.Close())
	}
	return f, nil
}
