package install

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"
)

// peerPID is the process that listens at the other end of a socket.
func peerPID(fd int) (int, error) { return unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID) }

// processProgram is the path by which a process was started: a number, then that path, then its arguments.
func processProgram(pid int) (string, error) {
	text, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil {
		return "", err
	}
	if len(text) < 5 {
		return "", errors.New("the system does not say")
	}
	path, _, _ := bytes.Cut(text[4:], []byte{0})
	return string(path), nil
}
