package install

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Snapshot is the folder in a node's state directory that keeps its small files as they were before the last switch.
const Snapshot = "before-update"

// Bounds of a snapshot: settings and keys are small, what is large can be made again.
const (
	maxSnapshotFile = 1 << 20
	maxSnapshot     = 32 << 20
)

// heldBack are folders whose small files are copied: what the node is to others. Caches, models and history are not.
var heldBack = []string{"serf", "tsnode", "trust"}

func (v *Versions) snapshot(stateDir, version string) error {
	if stateDir == "" {
		return nil
	}
	if err := KeepState(stateDir, version); err != nil {
		return err
	}
	v.done("copied")
	return nil
}

// KeepState copies what a version after this one might write in a way that this one does not understand, into [Snapshot] under
// this one's name. Each file is whole, since the node writes them by rename; together they are of one moment only as far as
// that matters.
func KeepState(stateDir, version string) error {
	if !isFolderName(version) {
		return fmt.Errorf("copying the node's state: %q cannot be a folder's name", version)
	}
	stateDir, err := filepath.EvalSymlinks(stateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no node ever ran
	}
	if err != nil {
		return fmt.Errorf("copying the node's state: %w", err)
	}
	root, err := os.OpenRoot(stateDir) // it may be of a user who is less than this one: no link in it leads out
	if err != nil {
		return fmt.Errorf("copying the node's state: %w", explain(err, stateDir))
	}
	defer root.Close()
	const fresh = unfinished + Snapshot
	err = root.RemoveAll(fresh)
	if err == nil {
		err = copyState(root, path.Join(fresh, version))
	}
	if err == nil {
		err = root.RemoveAll(Snapshot)
	}
	if err == nil {
		err = root.Rename(fresh, Snapshot)
	}
	if err == nil {
		err = syncFolder(stateDir)
	}
	if err != nil {
		_ = root.RemoveAll(fresh)
		return fmt.Errorf("copying the node's state: %w", explain(err, stateDir))
	}
	return nil
}

func copyState(root *os.Root, to string) error {
	if err := makeLike(root, ".", path.Dir(to)); err != nil {
		return err
	}
	left := int64(maxSnapshot)
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the node renames while we look
		}
		if err != nil {
			return err
		}
		top, _, below := strings.Cut(name, "/")
		if d.IsDir() {
			if name != "." && !slices.Contains(heldBack, top) {
				return fs.SkipDir
			}
			return makeLike(root, name, path.Join(to, name))
		}
		if !below && (top == "lock" || strings.HasPrefix(top, ".")) || !d.Type().IsRegular() {
			return nil
		}
		n, err := copyLike(root, name, path.Join(to, name), min(maxSnapshotFile, left))
		left -= n
		return err
	})
}

// makeLike makes a folder with the owner of another.
func makeLike(root *os.Root, like, dir string) error {
	if err := root.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return ownLike(root, like, dir)
}

// copyLike copies a file with its mode and owner. One that is larger than the limit is left out.
func copyLike(root *os.Root, from, to string, limit int64) (int64, error) {
	in, err := root.OpenFile(from, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer in.Close()
	stat, err := in.Stat()
	if err != nil || stat.Size() > limit || !stat.Mode().IsRegular() {
		return 0, err
	}
	out, err := root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, stat.Mode().Perm()&0o700)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(out, io.LimitReader(in, limit))
	return n, errors.Join(err, out.Sync(), out.Close(), ownLike(root, from, to))
}

func ownLike(root *os.Root, like, name string) error {
	stat, err := root.Lstat(like)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	sys, ok := stat.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return root.Lchown(name, int(sys.Uid), int(sys.Gid))
}
