package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"os"
)

// cardGroups returns the numeric groups that own the AMD device files under dev ("/dev"): a process outside of root
// can open them in a container only as a member.
func cardGroups(dev string) ([]string, error) {
	nodes, err := filepath.Glob(filepath.Join(dev, "dri", "*"))
	if err != nil {
		return nil, fmt.Errorf("listing %s/dri: %w", dev, err)
	}
	var groups []string
	for _, path := range append([]string{filepath.Join(dev, "kfd")}, nodes...) {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) && path == filepath.Join(dev, "kfd") {
			return nil, fmt.Errorf("no %s on this machine: load the amdgpu driver, or use image vulkan or cpu", path)
		}
		if err != nil || info.IsDir() {
			continue
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || stat.Gid == 0 {
			continue
		}
		if gid := strconv.FormatUint(uint64(stat.Gid), 10); !slices.Contains(groups, gid) {
			groups = append(groups, gid)
		}
	}
	return groups, nil
}
