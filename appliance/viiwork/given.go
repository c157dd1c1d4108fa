package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"viiwork/appliance/config"
)

// keptName is how listeners are called that this program has its manager hold for its next run.
const keptName = "viiwork"

// firstGiven is the first file that a manager gives, by the protocol of sd_listen_fds(3); mostGiven is more than any
// has reason to.
const (
	firstGiven = 3
	mostGiven  = 64
)

// given are the listeners that what started this process had open for it: those of the run before, or those of a
// socket unit.
type given struct {
	listeners map[string]net.Listener // by the address as the configuration writes it
	stale     bool                    // the manager holds others of ours, which the configuration names no more
}

// claim is the first act of a node: from here on no program that it starts gets what was given to it. It returns the names
// of the files.
func claim(getenv func(string) string) (names []string, err error) {
	if getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return nil, nil // none, or for the program that started us
	}
	n, err := strconv.Atoi(getenv("LISTEN_FDS"))
	if err != nil || n < 0 || n > mostGiven {
		return nil, fmt.Errorf("LISTEN_FDS=%q is no number of listeners: mend what starts this program", getenv("LISTEN_FDS"))
	}
	names = make([]string, n)
	copy(names, strings.Split(getenv("LISTEN_FDNAMES"), ":"))
	for fd := range n {
		syscall.CloseOnExec(firstGiven + fd)
	}
	for _, key := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		os.Unsetenv(key)
	}
	return names, nil
}

// takeGiven makes listeners of the claimed files. What another set up for us must be where the configuration says; what an
// earlier run of ours left, for another configuration, is closed.
func takeGiven(cfg *config.Config, names []string) (given, error) {
	g := given{listeners: map[string]net.Listener{}}
	var faults []error
	for i, name := range names {
		if err := g.take(cfg, firstGiven+i); err != nil && name == keptName {
			g.stale = true
		} else if err != nil {
			faults = append(faults, fmt.Errorf("the listener %q that this program was started with (file %d): %w", name, firstGiven+i, err))
		}
	}
	return g, errors.Join(faults...)
}

// take keeps the listener of one file, or closes the file.
func (g *given) take(cfg *config.Config, fd int) error {
	on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil { // not closed: where the number of them is wrong it is a file of Go's own, which cannot do without
		return errors.New("it is not a socket that listens")
	}
	f := os.NewFile(uintptr(fd), "given")
	defer f.Close()
	if on == 0 {
		return errors.New("it is not a socket that listens")
	}
	l, err := net.FileListener(f)
	if err != nil {
		return fmt.Errorf("taking it: %w", err)
	}
	at, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		l.Close()
		return fmt.Errorf("it listens on %s, where no TCP comes in", l.Addr())
	}
	for _, want := range cfg.Addresses() {
		if wanted, err := net.ResolveTCPAddr("tcp", want.Addr); err == nil && g.listeners[want.Addr] == nil && sameAddr(at, wanted) {
			g.listeners[want.Addr] = l
			return nil
		}
	}
	l.Close()
	return fmt.Errorf("it listens on %s, which neither api.local nor api.host says: change one or the other", at)
}

// sameAddr holds the address of a socket against a wanted one; none, or ::, is any address of both families, as Go listens.
func sameAddr(at, wanted *net.TCPAddr) bool {
	if at.Port != wanted.Port {
		return false
	}
	if wanted.IP == nil {
		return at.IP.Equal(net.IPv6unspecified)
	}
	return at.IP.Equal(wanted.IP)
}
