//go:build linux

package faults_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// network is two bridges, west and east, joined by a cable. Each machine has a namespace with two cables: one into its
// bridge, by which nodes reach each other, and one to us, by which clients reach it whatever the bench does to the other.
type network struct {
	home *os.File // our own namespace
}

func newNetwork(t *testing.T) *network {
	if errApart != nil {
		t.Skip(errApart)
	}
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { home.Close() })
	if err := ip("link add west type bridge", "link add east type bridge"); err != nil {
		t.Skip("there are no bridges here: ", err)
	}
	n := &network{home}
	n.must(t, ip("link add joint type veth peer name tnioj", "link set tnioj master east", "link set joint up", "link set tnioj up",
		"link set west up", "link set east up"))
	n.split(t, false)
	return n
}

// cable is one machine's place on the network.
type cable struct {
	net   *network
	i     int
	side  string   // west or east
	space *os.File // its namespace
}

// host is the i-th machine's address among the nodes.
func host(i int) string { return fmt.Sprintf("10.77.0.%d", 11+i) }

// lay gives the i-th machine its namespace and its cables.
func (n *network) lay(t *testing.T, i int, side string) *cable {
	space, err := newSpace()
	n.must(t, err)
	t.Cleanup(func() { space.Close() })
	c := &cable{n, i, side, space}
	home := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.home.Fd())
	n.must(t, c.within(func() error {
		return ip("link set lo up",
			fmt.Sprintf("link add mesh type veth peer name mesh%d netns %s", i, home),
			fmt.Sprintf("link add client type veth peer name client%d netns %s", i, home),
			fmt.Sprintf("addr add %s/24 dev mesh", host(i)),
			fmt.Sprintf("addr add 10.78.%d.2/30 dev client", i),
			"link set mesh up", "link set client up")
	}))
	n.must(t, ip(fmt.Sprintf("addr add 10.78.%d.1/30 dev client%d", i, i), fmt.Sprintf("link set client%d up", i),
		fmt.Sprintf("route add %s/32 dev client%d", host(i), i), fmt.Sprintf("link set mesh%d up", i)))
	c.plug(t, true)
	return c
}

// plug takes the machine off its bridge, or puts it back. Its end of the cable keeps its light: what is sent is gone
// without a word, and no connection ends.
func (c *cable) plug(t *testing.T, in bool) {
	to := "nomaster"
	if in {
		to = "master " + c.side
	}
	c.net.must(t, ip(fmt.Sprintf("link set mesh%d %s", c.i, to)))
}

// split takes the cable between west and east out, or puts it back.
func (n *network) split(t *testing.T, apart bool) {
	to := "master west"
	if apart {
		to = "nomaster"
	}
	n.must(t, ip("link set joint "+to))
}

// slow makes the machine's cable slow, in both directions where the kernel can; how says by what. "" = it cannot.
func (c *cable) slow(t *testing.T) (how string) {
	for _, how := range []string{"netem delay 150ms 50ms", "tbf rate 384kbit burst 6k latency 600ms"} {
		out := "qdisc add dev mesh root " + how
		if c.within(func() error { return tool("tc", out) }) == nil {
			c.net.must(t, tool("tc", fmt.Sprintf("qdisc add dev mesh%d root %s", c.i, how)))
			return how
		}
	}
	return ""
}

// fast ends slow.
func (c *cable) fast(t *testing.T) {
	c.net.must(t, c.within(func() error { return tool("tc", "qdisc del dev mesh root") }))
	c.net.must(t, tool("tc", fmt.Sprintf("qdisc del dev mesh%d root", c.i)))
}

// lossy makes the machine's cable lose a tenth of the packets in each direction; how says by what. "" = it cannot.
func (c *cable) lossy(t *testing.T) (how string, whole func()) {
	netem := "dev mesh root netem loss 10%"
	if c.within(func() error { return tool("tc", "qdisc add "+netem) }) == nil {
		c.net.must(t, tool("tc", fmt.Sprintf("qdisc add dev mesh%d root netem loss 10%%", c.i)))
		return "netem loss 10%", func() { c.fast(t) }
	}
	rules := func(act string) error {
		return c.within(func() error {
			for _, way := range []string{"INPUT -i mesh", "OUTPUT -o mesh"} {
				if err := tool("iptables", act+" "+way+" -m statistic --mode random --probability 0.1 -j DROP"); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if rules("-A") != nil {
		return "", nil
	}
	return "iptables, one packet in ten", func() { c.net.must(t, rules("-D")) }
}

func (n *network) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal("building the network: ", err)
	}
}

// within does f in the machine's namespace. What f starts stays there; f must start no goroutine.
func (c *cable) within(f func() error) error {
	runtime.LockOSThread()
	if err := unix.Setns(int(c.space.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	done := f()
	if err := unix.Setns(int(c.net.home.Fd()), unix.CLONE_NEWNET); err != nil {
		panic(err) // the thread is lost to all others
	}
	runtime.UnlockOSThread()
	return done
}

// newSpace makes a namespace that lives as long as the file is open or somebody is in it.
func newSpace() (*os.File, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer home.Close()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	space, err := os.Open("/proc/thread-self/ns/net")
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		panic(back) // the thread is lost to all others
	}
	return space, err
}

// ip does as many lines as one call of the program takes, in the namespace of the calling thread.
func ip(lines ...string) error {
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %q: %w: %s", lines, err, out)
	}
	return nil
}

func tool(name, args string) error {
	if out, err := exec.Command(name, strings.Fields(args)...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, args, err, out)
	}
	return nil
}
