package install

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// machineClock is this start of the machine, and the seconds since then, sleep included. Nobody sets that clock.
func machineClock() (boot string, seconds int64) {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without it all starts are taken for one
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // it always can
	return strings.TrimSpace(string(id)), now.Sec
}
