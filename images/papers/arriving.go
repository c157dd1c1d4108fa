package papers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// arriving is what the file of an arrival begins with: papers never do.
const arriving = ".arriving-"

var arrivalTag = regexp.MustCompile(`^[0-9a-f]{12}-[a-z2-7]{8}$`)

// Announce writes down that an image is on its way under a tag, until done is told that nothing is left of that name. A process
// that is killed meanwhile leaves the file, and its lock ends with it. Where root has it written, the node may still read it.
func (f Folder) Announce(tag string) (done func(gone bool), err error) {
	if !arrivalTag.MatchString(tag) {
		return nil, fmt.Errorf("%.80q is no tag of an arrival", tag)
	}
	if err := f.make(); err != nil {
		return nil, fmt.Errorf("noting that an image arrives: %w", err)
	}
	path := filepath.Join(f.dir, arriving+tag)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("noting that an image arrives: %w", err)
	}
	if err := errors.Join(own(path, f.dir), unix.Flock(int(file.Fd()), unix.LOCK_EX)); err != nil {
		file.Close()
		_ = os.Remove(path)
		return nil, fmt.Errorf("noting that an image arrives: %w", err)
	}
	return func(gone bool) {
		if gone {
			_ = os.Remove(path)
		}
		_ = unix.Flock(int(file.Fd()), unix.LOCK_UN) // a process that is just being started has the open file, too: closing it alone would not end the lock at once
		file.Close()
	}, nil
}

// Abandoned hands forget each tag whose process has ended without taking it away, and strikes it off where forget has.
func (f Folder) Abandoned(forget func(tag string) bool) {
	entries, _ := os.ReadDir(f.dir) // a folder that is not there has none
	for _, e := range entries {
		tag, is := strings.CutPrefix(e.Name(), arriving)
		if is && e.Type().IsRegular() && arrivalTag.MatchString(tag) {
			abandoned(filepath.Join(f.dir, e.Name()), func() bool { return forget(tag) })
		}
	}
}

func abandoned(path string, forget func() bool) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer file.Close()
	if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return // it is on its way
	}
	if forget() {
		_ = os.Remove(path)
	}
}
