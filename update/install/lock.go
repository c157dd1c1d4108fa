package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrBusy is wrapped where somebody else is at work in the folder; the message says who.
var ErrBusy = errors.New("somebody else is at it")

// lock takes a lock of the folder, or says who holds it. It ends with the process, however that ends.
func (v *Versions) lock(name, what string) (unlock func(), err error) {
	f, err := openPlain(v.at(name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w: run this as the user that owns it", v.dir, err)
	}
	for range 5 { // somebody may be looking whether it is held
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		defer f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking %s: %w", v.dir, err)
		}
		holder, _ := io.ReadAll(io.LimitReader(f, 200))
		return nil, fmt.Errorf("%w: %s: wait until it has ended", ErrBusy, printable(strings.TrimSpace(string(holder))))
	}
	if err := f.Truncate(0); err == nil { // who holds it is for people only
		_, _ = fmt.Fprintf(f, "%s, process %d\n", what, os.Getpid())
	}
	return func() { letGo(f) }, nil
}

// held reports whether somebody has a lock at this moment.
func (v *Versions) held(name string) bool {
	f, err := openPlain(v.at(name), os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer letGo(f)
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
}

// letGo ends a lock by word: a process that is just being started has the open file, too, and would keep it locked until it
// has become another program.
func letGo(f *os.File) {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	f.Close()
}

// statePatience is how long another one may take to read and write the state, which takes it milliseconds.
const statePatience = 10 * time.Second

// alone runs what changes the state or the links while nobody else does. The lock is a file that only the folder's owner
// can open: with one that everybody can, any user of the machine could hold up a verdict, and a start, for ever.
func (v *Versions) alone(act func() error) error {
	f, err := openPlain(v.at(fileTurn), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("locking what was installed: %w", explain(err, v.dir))
	}
	defer letGo(f)
	ctx, cancel := context.WithTimeout(context.Background(), statePatience)
	defer cancel()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return act()
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("locking %s: %w", v.dir, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("locking %s: %w for %v", v.dir, ErrBusy, statePatience)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
