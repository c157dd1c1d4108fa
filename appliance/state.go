package appliance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockState makes dir and takes its lock, so that two nodes never share one state. The lock ends with the process,
// however it ends.
func lockState(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the state directory: %w: make it writable to this user or set node.state_dir", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the state directory: %w: make it writable to this user or set node.state_dir", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("another node runs on %s: stop it, or give this one its own node.state_dir", dir)
		}
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return func() {
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN) // a process that is just being started has the open file, too: closing it alone would not end the lock at once
		f.Close()
	}, nil
}

// ownedByUs reports whether the file belongs to the user of this process.
func ownedByUs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}

// keepPrivate makes what this process and the engine processes it starts write readable to this user alone: a saved slot
// holds what people wrote, and llama-server leaves the mode of its files to the umask. In a container Docker sets the
// umask; there the folder's own mode, 0700, keeps others out.
func keepPrivate() { unix.Umask(0o077) }
