package docker_test

import (
	"io/fs"
	"syscall"
)

// ownerOf tells who owns a file; ok is false where that has no meaning.
func ownerOf(info fs.FileInfo) (uid int, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}
