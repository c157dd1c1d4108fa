package appliance

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// spoolPlace is where slot files may go on this machine. In a container the memory-backed folder is another than the one
// of the same name outside, where the engines that it has Docker start would look for it.
func spoolPlace(state string, off bool) place {
	p := place{state: state, off: off, boot: bootID(), room: memoryRoom}
	if !inContainer() {
		p.shm = "/dev/shm"
	}
	return p
}

func inContainer() bool {
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(mark); err == nil {
			return true
		}
	}
	return false
}

func bootID() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	id := strings.TrimSpace(string(text))
	if len(id) > 64 || strings.ContainsAny(id, " \n") {
		return ""
	}
	return id
}

// memoryRoom is how much can be written to a folder in memory, and how much memory the machine has. What the file system
// allows may be more than there is.
func memoryRoom(shm string) (free, memory int64) {
	var fs unix.Statfs_t
	if err := unix.Statfs(shm, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		return 0, 0
	}
	available, total := memoryInfo()
	return min(int64(fs.Bavail)*fs.Bsize, available), total
}

func memoryInfo() (available, total int64) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var name string
		var kib int64
		if n, _ := fmt.Sscan(lines.Text(), &name, &kib); n < 2 {
			continue
		}
		switch name {
		case "MemAvailable:":
			available = kib << 10
		case "MemTotal:":
			total = kib << 10
		}
	}
	return available, total
}
