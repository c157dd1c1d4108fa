package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openPlain opens a file of the folder as the plain file that it has to be. A pipe there would keep a node from starting
// for ever; a link would have another file read in its place, or emptied.
func openPlain(path string, flag int, mode fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, mode)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s is a link, not a file: remove it", path)
	}
	if err != nil {
		return nil, err
	}
	stat, err := f.Stat()
	if err == nil && !stat.Mode().IsRegular() {
		err = fmt.Errorf("%s is no plain file: remove it", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
