package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"viiwork/appliance/setup"
)

// manager is what started this process and wants to hear how it fares, by the protocol of sd_notify(3): datagrams to the
// socket that NOTIFY_SOCKET names. Engines never see that variable. A nil manager hears nothing.
type manager struct {
	socket   string
	watchdog time.Duration // it takes us for dead after this long without a beat; 0 = never
	keeps    bool          // it holds listeners open from one run to the next
	node     *node
	asking   atomic.Bool
}

// newManager returns nil where nothing listens.
func newManager(getenv func(string) string, n *node) *manager {
	m := &manager{socket: getenv("NOTIFY_SOCKET"), node: n}
	if m.socket == "" {
		return nil
	}
	micros, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	pid := getenv("WATCHDOG_PID")
	if err == nil && micros > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		m.watchdog = time.Duration(micros) * time.Microsecond
	}
	// Managers before systemd 254 do not tell; the unit does for them.
	room, err := strconv.Atoi(getenv("FDSTORE"))
	m.keeps = err == nil && room > 0
	return m
}

// restarts reports whether something starts this program again when it ends.
func restarts(getenv func(string) string) bool {
	given := getenv("LISTEN_FDS") != "" && getenv("LISTEN_PID") == strconv.Itoa(os.Getpid()) // else that of a terminal
	return getenv("NOTIFY_SOCKET") != "" || given || getenv("XPC_SERVICE_NAME") == setup.AgentLabel
}

// sayWithin is what a manager is given to take a word in.
const sayWithin = time.Second

// say sends a word. That it cannot be heard is no reason to end: the manager notices silence by itself.
func (m *manager) say(word string) { _ = m.send(word, nil) }

// keep has the manager hold l open until the node is stopped for good: connections wait there while none runs. It
// reports whether the manager has it.
func (m *manager) keep(l net.Listener) bool {
	tcp, ok := l.(*net.TCPListener)
	if m == nil || !m.keeps || !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	sent := errors.New("not sent")
	err = raw.Control(func(fd uintptr) {
		sent = m.send("FDSTORE=1\nFDNAME="+keptName, syscall.UnixRights(int(fd)))
	})
	return err == nil && sent == nil
}

// forget has the manager close what it holds for us.
func (m *manager) forget() { m.say("FDSTOREREMOVE=1\nFDNAME=" + keptName) }

func (m *manager) send(word string, rights []byte) error {
	if m == nil {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"}) // @name is an abstract one
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(sayWithin)) // one that reads no more must not hold the node up
	if rights == nil {
		_, err = conn.Write([]byte(word))
		return err
	}
	raw, err := conn.SyscallConn() // net sends no files by datagrams that have their addressee already
	if err != nil {
		return err
	}
	var sent error
	err = raw.Write(func(fd uintptr) bool {
		sent = syscall.Sendmsg(int(fd), []byte(word), rights, nil, 0)
		return !errors.Is(sent, syscall.EAGAIN)
	})
	return errors.Join(err, sent)
}

// beats tells when to beat: three times before the patience of the manager is over.
func (m *manager) beats() (<-chan time.Time, func()) {
	if m == nil || m.watchdog == 0 {
		return nil, func() {}
	}
	t := time.NewTicker(m.watchdog / 3)
	return t.C, t.Stop
}

// beat tells the manager that the node lives, if it does: its listener, its routes and the locks of its engine must answer
// a question for its status. The loop that also obeys signals calls it, so a loop that hangs beats no more either. It does
// not wait for the answer, and asks nothing new while one is outstanding.
func (m *manager) beat() {
	if m.asking.Swap(true) {
		return
	}
	go func() {
		defer m.asking.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), m.watchdog)
		defer cancel()
		body, err := m.node.call(ctx, http.MethodGet, "/v1/status", nil)
		if err == nil {
			body.Close()
			m.say("WATCHDOG=1")
		}
	}()
}
