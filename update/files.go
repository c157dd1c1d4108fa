package update

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// readBounded reads a file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, limit)
}

// openKept opens a file that this program keeps itself: a pipe in its place would have a reader wait for ever.
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

// readKept is readBounded for a file that this program keeps itself.
func readKept(path string, limit int64) ([]byte, error) {
	f, err := openKept(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, limit)
}

// readAll is io.ReadAll for what strangers send: more than limit is an error, not memory.
func readAll(r io.Reader, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	return text, err
}

// writeFile leaves the old file or the new one, whatever happens; mode 0600, its folder 0700.
func writeFile(path string, text []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making %s: %w: make it writable to this user or set node.state_dir", dir, err)
	}
	f, err := os.CreateTemp(dir, ".update-*")
	if err != nil {
		return fmt.Errorf("storing %s: %w", path, err)
	}
	defer os.Remove(f.Name()) // fails once it has its name
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("storing %s: %w", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("storing %s: %w", path, err)
	}
	folder, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("storing %s: %w", path, err)
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// giveTo makes what root wrote below dir the property of dir's owner: what its user cannot read would stop the node from
// looking for itself.
func giveTo(dir string) error {
	stat, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	owner, ok := stat.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	root, err := os.OpenRoot(dir) // that user may turn a folder into a link while we walk
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range []string{"update.json", "trust", "releases"} {
		err := fs.WalkDir(root.FS(), name, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return giveOne(root, path, owner)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("giving %s to the node's user: %w", name, err)
		}
	}
	return nil
}

// giveOne leaves alone what has another name as well: that user may have made one of a file that is none of ours.
func giveOne(root *os.Root, path string, owner *syscall.Stat_t) error {
	stat, err := root.Lstat(path)
	if err != nil {
		return err
	}
	is, ok := stat.Sys().(*syscall.Stat_t)
	if !ok || is.Uid == owner.Uid || stat.Mode().IsRegular() && is.Nlink > 1 {
		return nil
	}
	return root.Lchown(path, int(owner.Uid), int(owner.Gid))
}
