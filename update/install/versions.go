package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// What lies in a folder of versions beside the versions.
const (
	program      = "viiwork" // the file in a version's own folder
	linkCurrent  = "current"
	linkPrevious = "previous"
	fileState    = "state.json"
	fileTurn     = "state.lock"
	fileLock     = "lock"
	fileJudge    = "judge"
	fileJudgeLog = "judge.log"
	unfinished   = ".new-" // begins the names of what is not whole yet
)

// Versions is a folder PREFIX/versions.
type Versions struct {
	dir  string
	step func(name string) // told of each thing that is on disk now; nil = nobody is. For tests that cut an installation off
}

// Open takes the folder. It looks at nothing.
func Open(dir string) *Versions { return &Versions{dir: dir} }

// Current is the folder's name of the version that a start of the node runs, "v1.2.3".
func (v *Versions) Current() (string, error) { return v.follow(linkCurrent) }

// Previous is the one to go back to; "" = there is none.
func (v *Versions) Previous() (string, error) {
	name, err := v.follow(linkPrevious)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return name, err
}

// Program is the path of a version's program.
func (v *Versions) Program(version string) string { return filepath.Join(v.dir, version, program) }

// follow reads a link. Links made by hand may be absolute; one that leads out of the folder is none of ours.
func (v *Versions) follow(link string) (string, error) {
	target, err := os.Readlink(filepath.Join(v.dir, link))
	if err != nil {
		return "", fmt.Errorf("looking which version is %s: %w", link, err)
	}
	if filepath.IsAbs(target) && filepath.Dir(target) == filepath.Clean(v.dir) {
		target = filepath.Base(target)
	}
	target = filepath.Clean(target)
	if !isFolderName(target) {
		return "", fmt.Errorf("looking which version is %s: it leads to %q, which is no version's folder here: let it lead to one, such as v1.2.3", link, target)
	}
	return target, nil
}

// turn makes a link lead to a version, in one act that is on disk when it returns.
func (v *Versions) turn(link, version string) error {
	if is, err := v.follow(link); err == nil && is == version {
		return nil
	}
	if _, err := os.Stat(v.Program(version)); err != nil {
		return fmt.Errorf("turning %s to %s: %w", link, version, err)
	}
	fresh := filepath.Join(v.dir, unfinished+link)
	_ = os.Remove(fresh) // of a run that was cut off
	err := os.Symlink(version, fresh)
	if err == nil {
		err = os.Rename(fresh, filepath.Join(v.dir, link))
	}
	if err == nil {
		err = syncFolder(v.dir)
	}
	if err != nil {
		return fmt.Errorf("turning %s to %s: %w", link, version, err)
	}
	return nil
}

func (v *Versions) at(name string) string { return filepath.Join(v.dir, name) }

func (v *Versions) done(step string) {
	if v.step != nil {
		v.step(step)
	}
}

var folderName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// isFolderName keeps what a link or a file says from becoming another path.
func isFolderName(name string) bool {
	switch name {
	case linkCurrent, linkPrevious, fileState, fileTurn, fileLock, fileJudge, fileJudgeLog:
		return false
	}
	return folderName.MatchString(name)
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
