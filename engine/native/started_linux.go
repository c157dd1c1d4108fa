package native

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// startTime identifies the process that has this number now: the boot it belongs to and the clock ticks from boot to
// its start (proc(5), field 22 of stat). Two boots of one machine can give the same number and ticks, hence the boot.
// over says that it has ended and only waits to be reaped; errGone that there is none.
func startTime(pid int) (started string, over bool, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return "", false, errGone
	}
	if err != nil {
		return "", false, err
	}
	// The second field is the program's name in brackets, which may itself hold blanks and brackets.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const state, ticks = 0, 19 // counted from the third field
	if len(fields) <= ticks {
		return "", false, fmt.Errorf("reading /proc/%d/stat: too few fields", pid)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", false, err
	}
	over = fields[state] == "Z" || fields[state] == "X"
	return strings.TrimSpace(string(boot)) + " " + fields[ticks], over, nil
}
