package install

import "golang.org/x/sys/unix"

// machineClock is this start of the machine, and the seconds since then, sleep included. Nobody sets that clock.
func machineClock() (boot string, seconds int64) {
	boot, _ = unix.Sysctl("kern.bootsessionuuid") // without it all starts are taken for one
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it always can
	return boot, now.Sec
}
