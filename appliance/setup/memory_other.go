//go:build !linux

package setup

import "golang.org/x/sys/unix"

// TotalMemory is this machine's RAM in bytes, 0 when it cannot be read.
func TotalMemory() uint64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return n
}
