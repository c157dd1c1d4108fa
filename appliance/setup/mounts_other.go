//go:build !linux

package setup

import (
	"io/fs"
	"path/filepath"
	"syscall"
)

// mountsBelow are the places below a folder at which another disk is mounted.
func mountsBelow(dir string) (found []string, err error) {
	var own *syscall.Stat_t
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		switch {
		case !ok:
		case own == nil:
			own = stat
		case stat.Dev != own.Dev:
			found = append(found, path)
			return fs.SkipDir
		}
		return nil
	})
	return found, err
}
