package install

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// peerPID is the process that listens at the other end of a socket.
func peerPID(fd int) (int, error) {
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(peer.Pid), nil
}

// processProgram is the file that a process runs.
func processProgram(pid int) (string, error) { return os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)) }
