package tsnode_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"viiwork/tsnode"
)

// neighbour is a config for a node on a loopback address of its own.
func neighbour(t *testing.T, name, host string, seeds ...string) tsnode.Config {
	return tsnode.Config{
		Network: tsnode.LAN, Name: name, StateDir: t.TempDir(), Host: host,
		APIPort: freePort(t, host), GossipPort: 7946, Seeds: seeds, Log: quiet(),
	}
}

func freePort(t *testing.T, host string) int {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestLoopbackNeighboursReachEachOtherBySeed(t *testing.T) {
	a := up(t, neighbour(t, "a", "127.0.0.61", "127.0.0.62", "127.0.0.63:7000", "127.0.0.61"))
	cfg := neighbour(t, "b", "127.0.0.62")
	b := up(t, cfg)
	await(t, "the seeds", func() bool { return len(a.Peers()) > 0 })
	peers := a.Peers()
	if len(peers) != 2 || peers[0].GossipPort != 7946 || peers[1].GossipPort != 7000 {
		t.Fatalf("peers are %+v, want the two other seeds with their ports", peers)
	}
	l, err := b.ListenStream(cfg.APIPort)
	if err != nil {
		t.Fatal(err)
	}
	sender := make(chan netip.Addr, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		sender <- c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
		fmt.Fprint(c, "hello")
	}()
	defer l.Close()
	c, err := a.DialContext(bounded(t), "tcp", address(b, 0, cfg.APIPort))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if got := <-sender; got != a.Addr() {
		t.Errorf("b sees %v calling, want a's own %v", got, a.Addr())
	}
}

func TestLANPacketsArrive(t *testing.T) {
	a, b := up(t, neighbour(t, "a", "127.0.0.61")), up(t, neighbour(t, "b", "127.0.0.62"))
	pa, err := a.ListenPacket(0)
	if err != nil {
		t.Fatal(err)
	}
	defer pa.Close()
	pb, err := b.ListenPacket(0)
	if err != nil {
		t.Fatal(err)
	}
	defer pb.Close()
	if _, err := pa.WriteTo([]byte("ping"), pb.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	pb.SetReadDeadline(time.Now().Add(patience))
	buf := make([]byte, 10)
	n, from, err := pb.ReadFrom(buf)
	if err != nil || string(buf[:n]) != "ping" || from.String() != pa.LocalAddr().String() {
		t.Errorf("got %q from %v, %v", buf[:n], from, err)
	}
}

// TestMembersWordOpensNoInnerAddress: on a lan a member's word lets a node dial others, never itself or the cloud's
// metadata service.
func TestMembersWordOpensNoInnerAddress(t *testing.T) {
	host, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	var touched atomic.Bool
	go func() {
		if c, err := host.Accept(); err == nil {
			touched.Store(true)
			c.Close()
		}
	}()
	own := outerAddr(t)
	cfg := neighbour(t, "a", own.String())
	n := up(t, cfg)
	port := host.Addr().(*net.TCPAddr).Port
	for _, text := range []string{"127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::", "169.254.169.254", "fe80::1", "224.0.0.1", "255.255.255.255"} {
		addr := netip.MustParseAddr(text)
		n.Admit(addr)
		_, err := n.DialContext(bounded(t), "tcp", netip.AddrPortFrom(addr, uint16(port)).String())
		if !errors.Is(err, tsnode.ErrNotPeer) {
			t.Errorf("%s: %v, want ErrNotPeer", text, err)
		}
	}
	if touched.Load() {
		t.Error("a listener of loopback was reached")
	}
}

func TestAdmittedMemberIsDialled(t *testing.T) {
	a, b := up(t, neighbour(t, "a", "127.0.0.61")), up(t, neighbour(t, "b", "127.0.0.62"))
	l, err := b.ListenStream(0)
	if err != nil {
		t.Fatal(err)
	}
	echo(t, l)
	to := l.Addr().String()
	if _, err := a.DialContext(bounded(t), "tcp", to); !errors.Is(err, tsnode.ErrNotPeer) {
		t.Errorf("before: %v, want ErrNotPeer", err)
	}
	a.Admit(b.Addr())
	exchange(t, a, to, "admitted")
}

func TestAdmissionsAreBounded(t *testing.T) {
	n := up(t, neighbour(t, "a", "127.0.0.61"))
	first := netip.MustParseAddr("127.1.0.0")
	next := first
	for range 5000 {
		n.Admit(next)
		next = next.Next()
	}
	port := uint16(freePort(t, "127.0.0.1"))
	dial := func(addr netip.Addr) error {
		_, err := n.DialContext(bounded(t), "tcp", netip.AddrPortFrom(addr, port).String())
		return err
	}
	if err := dial(first); !errors.Is(err, tsnode.ErrNotPeer) {
		t.Errorf("the oldest of 5,000 is still known: %v", err)
	}
	if err := dial(next.Prev()); err == nil || errors.Is(err, tsnode.ErrNotPeer) {
		t.Errorf("the newest is not dialled: %v", err)
	}
}

func TestLANIdentityIsKeptAndPrivate(t *testing.T) {
	cfg := neighbour(t, "a", "127.0.0.61")
	first := up(t, cfg)
	id := first.ID()
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cfg.StateDir, "tsnode", "id")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(id) != 32 || info.Mode().Perm() != 0o600 {
		t.Errorf("id %q in a file of mode %v", id, info.Mode())
	}
	second := up(t, cfg)
	if second.ID() != id {
		t.Errorf("the id changed from %s to %s", id, second.ID())
	}
	second.stop()
	if err := os.WriteFile(path, nil, 0o600); err != nil { // as a full disk leaves it
		t.Fatal(err)
	}
	if third := up(t, cfg); len(third.ID()) != 32 || third.ID() == id {
		t.Errorf("a damaged id became %q", third.ID())
	}
}

func TestMissingHostAddressIsNamed(t *testing.T) {
	n := run(t, neighbourAt(t, "192.0.2.211"))
	await(t, "the warning", func() bool { return hasWarning(n.Status(), "lan-host") })
	if n.Status().State != tsnode.StateStarting {
		t.Errorf("the state is %q", n.Status().State)
	}
}

func neighbourAt(t *testing.T, host string) tsnode.Config {
	return tsnode.Config{Network: tsnode.LAN, Name: "a", StateDir: t.TempDir(), Host: host, APIPort: 1, GossipPort: 2, Log: quiet()}
}

func TestNodeOnAllAddressesAnswersEach(t *testing.T) {
	own := outerAddr(t)
	cfg := neighbourAt(t, "")
	n := up(t, cfg)
	if !strings.Contains(fmt.Sprint(n.Addrs()), own.String()) {
		t.Fatalf("own addresses %v lack %v", n.Addrs(), own)
	}
	for _, a := range n.Addrs() {
		if a.IsLoopback() || a.IsLinkLocalUnicast() {
			t.Errorf("%v would be told to others", a)
		}
	}
	l, err := n.ListenStream(0)
	if err != nil {
		t.Fatal(err)
	}
	echo(t, l)
	port := l.Addr().(*net.TCPAddr).Port
	for i := range n.Addrs() {
		exchange(t, n, address(n, i, port), "hello")
	}
}

// outerAddr is an address of this machine that others can reach.
func outerAddr(t *testing.T) netip.Addr {
	t.Helper()
	iface := multicastInterface(t)
	addrs, err := iface.Addrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil {
			addr, _ := netip.AddrFromSlice(ip.IP.To4())
			return addr
		}
	}
	t.Skip("this machine has no IPv4 address but loopback's")
	return netip.Addr{}
}

func multicastInterface(t *testing.T) net.Interface {
	ifaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, iface := range ifaces {
		want := net.FlagUp | net.FlagRunning | net.FlagMulticast
		if iface.Flags&want == want && iface.Flags&net.FlagLoopback == 0 && !strings.HasPrefix(iface.Name, "docker") {
			return iface
		}
	}
	t.Skip("this machine has no interface that multicasts")
	return net.Interface{}
}
