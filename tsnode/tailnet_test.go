package tsnode_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"viiwork/tsnode"
	"viiwork/tsnode/localcontrol"
)

func TestDevicesReachEachOtherOnBothFamilies(t *testing.T) {
	c := startControl(t, localcontrol.Config{})
	a, b := up(t, device(t, c, "a")), up(t, device(t, c, "b"))
	if addrs := b.Addrs(); len(addrs) != 2 || !addrs[0].Is4() || !addrs[1].Is6() {
		t.Fatalf("own addresses are %v, want v4 and then v6", addrs)
	}
	l, err := b.ListenStream(8086)
	if err != nil {
		t.Fatal(err)
	}
	echo(t, l)
	if got, want := l.Addr().String(), address(b, 0, 8086); got != want {
		t.Errorf("the listener's address is %s, want %s", got, want)
	}
	for i := range 2 {
		exchange(t, a, address(b, i, 8086), "over family "+b.Addrs()[i].String())
	}
	exchange(t, b, address(b, 0, 8086), "to itself")
}

func TestStreamArrivesWhole(t *testing.T) {
	c := startControl(t, localcontrol.Config{})
	a, b := up(t, device(t, c, "a")), up(t, device(t, c, "b"))
	l, err := b.ListenStream(8086)
	if err != nil {
		t.Fatal(err)
	}
	echo(t, l)
	exchange(t, a, address(b, 0, 8086), "hello")
	conn, err := a.DialContext(bounded(t), "tcp", address(b, 0, 8086))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sent := make([]byte, 4<<20)
	rand.Read(sent)
	go conn.Write(sent)
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(conn, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Error("the stream came back changed")
	}
}

func TestPacketsArriveOnBothFamilies(t *testing.T) {
	c := startControl(t, localcontrol.Config{})
	a, b := up(t, device(t, c, "a")), up(t, device(t, c, "b"))
	pa, err := a.ListenPacket(7946)
	if err != nil {
		t.Fatal(err)
	}
	defer pa.Close()
	pb, err := b.ListenPacket(7946)
	if err != nil {
		t.Fatal(err)
	}
	defer pb.Close()
	buf := make([]byte, 1<<16)
	for i := range 2 {
		to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(b.Addrs()[i], 7946))
		from := netip.AddrPortFrom(a.Addrs()[i], 7946)
		for _, size := range []int{1, 1200, 20000} {
			if i == 1 && size > 1200 {
				continue // a tailnet loses fragments of IPv6
			}
			want := bytes.Repeat([]byte{byte(i + 1)}, size)
			await(t, fmt.Sprintf("the arrival of %d bytes from %s", size, from), func() bool {
				if _, err := pa.WriteTo(want, to); err != nil {
					t.Fatal(err)
				}
				pb.SetReadDeadline(time.Now().Add(time.Second))
				n, sender, err := pb.ReadFrom(buf)
				if err != nil || !bytes.Equal(buf[:n], want) {
					return false // a late one of the round before: the first may wait for a handshake
				}
				if sender.String() != from.String() {
					t.Errorf("sender is %v, want %v", sender, from)
				}
				return true
			})
		}
	}
}

func TestClosedPacketConnEndsReads(t *testing.T) {
	c := startControl(t, localcontrol.Config{})
	a := up(t, device(t, c, "a"))
	p, err := a.ListenPacket(7946)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, _, err := p.ReadFrom(make([]byte, 10))
		ended <- err
	}()
	p.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("the read ended with %v, want net.ErrClosed", err)
		}
	case <-time.After(patience):
		t.Fatal("the read goes on")
	}
	again, err := a.ListenPacket(7946)
	if err != nil {
		t.Fatalf("the port is not free after Close: %v", err)
	}
	again.Close()
}

func TestWhoIsNamesTheCaller(t *testing.T) {
	c := startControl(t, localcontrol.Config{Tags: []string{"tag:viiwork"}})
	tagged := device(t, c, "a")
	tagged.Tags = []string{"tag:viiwork"}
	a, b := up(t, tagged), up(t, device(t, c, "b"))
	l, err := b.ListenStream(8086)
	if err != nil {
		t.Fatal(err)
	}
	remotes := make(chan string, 8)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			remotes <- conn.RemoteAddr().String()
			io.Copy(conn, conn)
			conn.Close()
		}
	}()
	defer l.Close()
	exchange(t, a, address(b, 0, 8086), "who am I")
	caller, err := b.WhoIs(bounded(t), netip.MustParseAddrPort(<-remotes))
	if err != nil {
		t.Fatal(err)
	}
	if caller.Local || caller.Node != "viiwork-a" || caller.StableID != a.ID() || caller.Login == "" ||
		len(caller.Tags) != 1 || caller.Tags[0] != "tag:viiwork" {
		t.Errorf("the caller is %+v", caller)
	}
	_, err = b.WhoIs(bounded(t), netip.MustParseAddrPort("100.99.98.97:1234"))
	if !errors.Is(err, tsnode.ErrUnknownCaller) {
		t.Errorf("a stranger's address gives %v, want ErrUnknownCaller", err)
	}
	local, err := b.WhoIs(bounded(t), netip.MustParseAddrPort("127.0.0.1:1234"))
	if err != nil || !local.Local {
		t.Errorf("loopback is %+v, %v, want local", local, err)
	}
}

func TestPeersAreThoseThatMayBeOurs(t *testing.T) {
	c := startControl(t, localcontrol.Config{Tags: []string{"tag:viiwork", "tag:other"}})
	me := device(t, c, "me")
	me.Tags, me.Seeds = []string{"tag:viiwork"}, []string{"named:7000"}
	byTag := device(t, c, "x")
	byTag.Hostname, byTag.Tags = "gpu-box", []string{"tag:viiwork"}
	byPrefix := device(t, c, "attic")
	bySeed := device(t, c, "y")
	bySeed.Hostname = "named"
	stranger := device(t, c, "z")
	stranger.Hostname, stranger.Tags = "printer", []string{"tag:other"}
	a := up(t, me)
	for _, cfg := range []tsnode.Config{byTag, byPrefix, bySeed, stranger} {
		up(t, cfg)
	}
	await(t, "three peers", func() bool { return len(a.Peers()) == 3 })
	var names []string
	for _, p := range a.Peers() {
		names = append(names, p.Name)
		if p.ID == "" || len(p.Addrs) != 2 || !p.Online {
			t.Errorf("peer %+v lacks something", p)
		}
		if want := map[bool]int{true: 7000, false: 7946}[p.Name == "named"]; p.GossipPort != want {
			t.Errorf("%s gossips at %d, want %d", p.Name, p.GossipPort, want)
		}
	}
	if got := strings.Join(names, " "); got != "gpu-box named viiwork-attic" {
		t.Errorf("peers are %s", got)
	}
}

func TestRestartKeepsTheDevice(t *testing.T) {
	c := startControl(t, localcontrol.Config{})
	cfg := device(t, c, "a")
	first := up(t, cfg)
	id, addr := first.ID(), first.Addrs()[0]
	if err := first.stop(); err != nil {
		t.Fatalf("Run ended with %v", err)
	}
	if first.Status().State != tsnode.StateStopped {
		t.Errorf("after Run the state is %q", first.Status().State)
	}
	second := up(t, cfg)
	if second.ID() != id || second.Addrs()[0] != addr {
		t.Errorf("the device came back as %s %v, was %s %v", second.ID(), second.Addrs()[0], id, addr)
	}
	if c.Devices() != 1 {
		t.Errorf("the tailnet has %d devices, want 1", c.Devices())
	}
}

func TestStateDirectoryIsOneNodes(t *testing.T) {
	c := startControl(t, localcontrol.Config{})
	cfg := device(t, c, "a")
	first, err := tsnode.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tsnode.New(cfg); err == nil || !strings.Contains(err.Error(), "node.state_dir") {
		t.Errorf("the second node on one directory: %v, want a refusal that says what to do", err)
	}
	if err := errors.Join(first.Close(), first.Close()); err != nil {
		t.Errorf("closing: %v", err)
	}
	again, err := tsnode.New(cfg)
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	again.Close()
}

// TestStrangersAddressIsNotDialled holds a listener of this machine against every way to be pointed at it.
func TestStrangersAddressIsNotDialled(t *testing.T) {
	c := startControl(t, localcontrol.Config{})
	a := up(t, device(t, c, "a"))
	host, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	var touched atomic.Bool
	go func() {
		if conn, err := host.Accept(); err == nil {
			touched.Store(true)
			conn.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(host.Addr().String())
	a.Admit(netip.MustParseAddr("127.0.0.1")) // a member's word adds nothing to a tailnet
	for _, addr := range []string{"127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "100.64.99.99", "169.254.169.254", "192.0.2.1"} {
		_, err := a.DialContext(bounded(t), "tcp", net.JoinHostPort(addr, port))
		if !errors.Is(err, tsnode.ErrNotPeer) {
			t.Errorf("%s: %v, want ErrNotPeer", addr, err)
		}
	}
	for _, addr := range []string{"localhost:" + port, "viiwork-a.demo.ts.net:80", "", ":80", "100.64.0.1"} {
		if _, err := a.DialContext(bounded(t), "tcp", addr); err == nil {
			t.Errorf("%q was dialled", addr)
		}
	}
	if touched.Load() {
		t.Error("a listener of the host was reached")
	}
}
