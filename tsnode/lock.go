package tsnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// dirLock keeps others out of a directory. tsnet itself does not: two devices on one state come up with one address,
// and take turns in being unreachable.
type dirLock struct {
	mu   sync.Mutex
	file *os.File // nil once released
}

// lockDir makes dir and locks it. The lock ends with the process, however it ends.
func lockDir(dir string) (*dirLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the network's state directory: %w: make it writable to this user or set node.state_dir", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the network's state: %w: make it writable to this user or set node.state_dir", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("another node uses %s: stop it, or give this one its own node.state_dir", dir)
		}
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return &dirLock{file: f}, nil
}

func (l *dirLock) held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file != nil
}

func (l *dirLock) release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	_ = unix.Flock(int(l.file.Fd()), unix.LOCK_UN) // a process that is just being started has the open file, too: closing it alone would not end the lock at once
	err := l.file.Close()
	l.file = nil
	return err
}
