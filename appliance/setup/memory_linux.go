package setup

import "golang.org/x/sys/unix"

// TotalMemory is this machine's RAM in bytes, 0 when it cannot be read.
func TotalMemory() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return info.Totalram * uint64(info.Unit)
}
