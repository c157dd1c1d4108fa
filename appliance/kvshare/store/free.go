package store

import "syscall"

// disk gives the bytes that are free where the store is, and those that are to stay so. Where that cannot be told, the
// budget alone counts.
func (s *Store) disk() (free, floor int64) {
	var at syscall.Statfs_t
	if err := syscall.Statfs(s.cfg.Dir, &at); err != nil {
		return s.cfg.Budget, 0
	}
	block := int64(at.Bsize)
	if floor = s.cfg.KeepFree; floor == 0 {
		floor = min(max(int64(at.Blocks)*block/20, minKeep), maxKeep)
	}
	return int64(at.Bavail) * block, floor
}
