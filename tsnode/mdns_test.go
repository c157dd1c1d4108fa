package tsnode_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/tsnode"
)

const someID = "00112233445566778899aabbccddeeff"

func example() tsnode.Heard {
	return tsnode.Heard{ID: someID, Name: "attic", APIPort: 8086, GossipPort: 7946,
		Addrs: []netip.Addr{netip.MustParseAddr("192.168.1.7"), netip.MustParseAddr("fd00::7")}}
}

func TestAnnouncementIsUnderstood(t *testing.T) {
	packet, err := tsnode.Announce(example(), 2*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	_, nodes, ttl := tsnode.ParsePacket(packet)
	if len(nodes) != 1 || !reflect.DeepEqual(nodes[0], example()) || ttl != 2*time.Minute {
		t.Errorf("read %+v for %v", nodes, ttl)
	}
	query, err := tsnode.Query()
	if err != nil {
		t.Fatal(err)
	}
	if asks, nodes, _ := tsnode.ParsePacket(query); asks != 1 || len(nodes) != 0 {
		t.Errorf("the question reads as %d asks and %v", asks, nodes)
	}
}

// FuzzStrangersPacket holds whatever is read out of a packet to the form that the rest relies on.
func FuzzStrangersPacket(f *testing.F) {
	packet, err := tsnode.Announce(example(), time.Minute)
	if err != nil {
		f.Fatal(err)
	}
	query, err := tsnode.Query()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packet)
	f.Add(query)
	f.Add(packet[:len(packet)-5])
	f.Add([]byte(strings.Replace(string(packet), "attic", "a\x00\nic", 1)))
	f.Fuzz(func(t *testing.T, packet []byte) {
		asks, nodes, ttl := tsnode.ParsePacket(packet)
		if asks > 128 || ttl < 0 || ttl > time.Hour {
			t.Errorf("%d asks, ttl %v", asks, ttl)
		}
		for _, n := range nodes {
			if len(n.ID) != 32 || n.Name == "" || len(n.Name) > 32 || strings.Trim(n.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
				t.Errorf("accepted %+v", n)
			}
			if n.APIPort < 1 || n.APIPort > 65535 || n.GossipPort < 1 || n.GossipPort > 65535 || len(n.Addrs) > 8 {
				t.Errorf("accepted %+v", n)
			}
		}
	})
}

func TestOnlyAddressesOfTheLinkAreBelieved(t *testing.T) {
	in, out := netip.MustParseAddr("192.168.1.7"), netip.MustParseAddr("8.8.8.8")
	from := netip.MustParseAddr("192.168.1.9")
	for _, c := range []struct {
		said []netip.Addr
		from netip.Addr
		want []netip.Addr
	}{
		{[]netip.Addr{in, out}, from, []netip.Addr{in}},
		{[]netip.Addr{out}, from, []netip.Addr{from}},
		{nil, from, []netip.Addr{from}},
		{[]netip.Addr{out}, out, nil},
		{[]netip.Addr{netip.MustParseAddr("127.0.0.1")}, out, nil},
	} {
		got := tsnode.Believed("192.168.1.5/24", c.said, c.from)
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("said %v from %v: believed %v, want %v", c.said, c.from, got, c.want)
		}
	}
}

func TestRosterForgetsAndIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tsnode.NewRoster(someID)
		r.Hear(example(), time.Minute) // this node itself, heard back
		if got := r.Peers(); len(got) != 0 {
			t.Errorf("a node is its own peer: %v", got)
		}
		for i := range 1000 {
			h := example()
			h.ID = fmt.Sprintf("%032x", i)
			r.Hear(h, time.Minute)
		}
		if got := len(r.Peers()); got != 256 {
			t.Errorf("%d of 1,000 strangers are remembered, want 256", got)
		}
		goodbye := example()
		goodbye.ID = fmt.Sprintf("%032x", 5)
		r.Hear(goodbye, 0)
		if got := len(r.Peers()); got != 255 {
			t.Errorf("%d after a goodbye, want 255", got)
		}
		time.Sleep(61 * time.Second)
		if got := len(r.Peers()); got != 0 {
			t.Errorf("%d are remembered past their time", got)
		}
	})
}

func TestNodesOfOneLinkFindEachOtherByMDNS(t *testing.T) {
	host := outerAddr(t).String()
	with := func(name string) tsnode.Config {
		cfg := neighbour(t, name, host)
		cfg.MDNS = true
		return cfg
	}
	cfg := with("a")
	a, b := up(t, cfg), up(t, with("b"))
	sees := func(n *running, id string) *tsnode.Peer {
		for _, p := range n.Peers() {
			if p.ID == id {
				return &p
			}
		}
		return nil
	}
	await(t, "both see each other", func() bool { return sees(a, b.ID()) != nil && sees(b, a.ID()) != nil })
	p := sees(b, a.ID())
	if p.Name != "a" || p.APIPort != cfg.APIPort || p.GossipPort != 7946 || len(p.Addrs) != 1 || p.Addrs[0] != a.Addr() || !p.Online {
		t.Errorf("b sees a as %+v", p)
	}
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	await(t, "the goodbye is heard", func() bool { return sees(a, b.ID()) == nil })
}

func TestSeedsAreCutAtTheirPort(t *testing.T) {
	for seed, want := range map[string]string{
		"attic":              "attic 7946",
		"attic:7000":         "attic 7000",
		"192.168.1.7":        "192.168.1.7 7946",
		"192.168.1.7:7000":   "192.168.1.7 7000",
		"fd00::7":            "fd00::7 7946",
		"[fd00::7]:7000":     "fd00::7 7000",
		"attic:99999":        "attic 7946",
		"attic.lan.:7946":    "attic.lan. 7946",
		"attic:port":         "attic 7946",
		"2001:db8::1:2:3:44": "2001:db8::1:2:3:44 7946",
	} {
		host, port := tsnode.SplitSeed(seed, 7946)
		if got := fmt.Sprint(host, " ", port); got != want {
			t.Errorf("%s is %s, want %s", seed, got, want)
		}
	}
}
