package native

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// awaitEnd returns when the process with that number has ended, ctx has, or d is over. It may return early: the caller
// looks for itself. A pidfd is told at once; kernels before 5.3 and some sandboxes have none.
func awaitEnd(ctx context.Context, pid int, d time.Duration) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		sleep(ctx, min(d, lookEvery))
		return
	}
	defer unix.Close(fd)
	wake, waker, err := os.Pipe()
	if err != nil {
		sleep(ctx, min(d, lookEvery))
		return
	}
	defer wake.Close()
	defer waker.Close()
	defer context.AfterFunc(ctx, func() { waker.Close() })()

	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(wake.Fd()), Events: unix.POLLIN}}
	_, _ = unix.Poll(fds, int(d.Milliseconds()))
}
