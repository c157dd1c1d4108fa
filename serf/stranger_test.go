package serf_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"viiwork/serf"
)

// noise is n bytes that begin with each of the message types in turn.
func noise(r *rand.Rand, i, n int) []byte {
	b := make([]byte, n)
	for j := range b {
		b[j] = byte(r.Uint32())
	}
	if n > 0 {
		b[0] = byte(i)
	}
	return b
}

func TestGarbageFromStrangersChangesNothing(t *testing.T) {
	for name, k := range map[string][]byte{"secured": key(1), "open": nil} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFabric()
				nodes := keyed(t, f, 3, k)
				target := nodes[0].net.addrPort()
				r := rand.New(rand.NewPCG(1, 2))
				for i := range 2000 {
					from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)}), 1000)
					f.send(from, target, noise(r, i, r.IntN(200)))
					if i%100 == 0 {
						f.send(from, target, noise(r, i, 60_000))
						time.Sleep(time.Millisecond)
					}
				}
				stranger := f.host(99)
				for i := range 300 {
					conn, err := stranger.DialContext(context.Background(), "tcp", target.String())
					if err != nil {
						t.Fatal(err)
					}
					conn.SetDeadline(time.Now().Add(time.Second))
					conn.Write(noise(r, i, r.IntN(5000)))
					conn.Close()
				}
				time.Sleep(time.Minute)
				waitAll(t, nodes, time.Second)
				if w, ok := nodes[0].warned("gossip-garbage"); !ok || w.Fix == "" {
					t.Errorf("the owner is told %+v", nodes[0].Warnings())
				}
				if n := len(nodes[0].Warnings()); n > 32 {
					t.Errorf("%d warnings", n)
				}
				if n := nodes[0].log.count("level=WARN"); n > 32 {
					t.Errorf("%d lines in the log", n)
				}
				if err := nodes[0].Broadcast(context.Background(), "still", nil); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestStreamIsReadToALimit(t *testing.T) {
	for name, k := range map[string][]byte{"secured": key(1), "open": nil} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFabric()
				nodes := keyed(t, f, 2, k)
				conn, err := f.host(99).DialContext(context.Background(), "tcp", nodes[0].net.addrPort().String())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				go io.Copy(io.Discard, conn)
				head := []byte{10, 0, 0, 0, 0} // encrypted, 20 MB
				binary.BigEndian.PutUint32(head[1:], 20_000_000)
				if k == nil {
					head = []byte{8, 0x81, 0xaa} // a message of the user's, 16 MB
					head = append(head, "UserMsgLen"...)
					head = append(head, 0xce, 1, 0, 0, 0)
				}
				conn.Write(head)
				sent, chunk := 0, make([]byte, 64<<10)
				for sent < 10<<20 {
					n, err := conn.Write(chunk)
					sent += n
					if err != nil {
						break
					}
				}
				if sent > 3<<20 {
					t.Errorf("it took %d bytes of one stream", sent)
				}
				waitAll(t, nodes, time.Second)
			})
		})
	}
}

func TestOneStrangerCannotTakeAllStreams(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFabric()
		nodes := keyed(t, f, 2, key(1))
		stranger := f.host(99)
		var open []net.Conn
		for range 50 {
			conn, err := stranger.DialContext(context.Background(), "tcp", nodes[0].net.addrPort().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			open = append(open, conn)
		}
		refused := 0
		for _, conn := range open {
			conn.SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err := conn.Read(make([]byte, 1)); err == io.EOF {
				refused++
			}
		}
		if refused < 42 {
			t.Errorf("%d of 50 silent streams were refused", refused)
		}
		cfg := config(3, f.host(3))
		cfg.Key = key(1)
		late := start(t, cfg)
		late.join(nodes[0])
		waitAll(t, append(nodes, late), time.Minute)
	})
}

func TestMemberWithImpossibleTagsIsNone(t *testing.T) {
	good := func() map[string]string {
		return map[string]string{"name": "attic", "api": "10.0.0.1:8086", "version": "3.0.0", "wire": "1", "since": "1700000000000"}
	}
	ip := []byte{10, 0, 0, 1}
	if m, err := serf.ReadMember("id", ip, 7946, good()); err != nil || m.Name != "attic" {
		t.Fatalf("%+v, %v", m, err)
	}
	for tag, values := range map[string][]string{
		"name":    {"", "Attic", "a b", "a\nb", strings.Repeat("a", 33)},
		"api":     {"", "x", "10.0.0.1", "10.0.0.1:0", "169.254.169.254:80", "evil.example:80", "[::1]:80"},
		"version": {"", "1\n", "\x00", "ä"},
		"wire":    {"", "0", "-1", "x", "99999999999999999999"},
		"since":   {"", "-1", "x", "99999999999999"},
	} {
		for _, v := range values {
			tags := good()
			tags[tag] = v
			if _, err := serf.ReadMember("id", ip, 7946, tags); err == nil {
				t.Errorf("%s = %q is taken in", tag, v)
			}
		}
	}
	for _, id := range []string{"", "a b", "a/b", "a\nalive: b 10.0.0.2:1", strings.Repeat("a", 65)} {
		if _, err := serf.ReadMember(id, ip, 7946, good()); err == nil {
			t.Errorf("the id %q is taken in", id)
		}
	}
	for _, bad := range [][]byte{nil, {1}, {0, 0, 0, 0}, {224, 0, 0, 1}, {255, 255, 255, 255}, make([]byte, 17)} {
		if _, err := serf.ReadMember("id", bad, 7946, good()); err == nil {
			t.Errorf("the address %v is taken in", bad)
		}
	}
	if _, err := serf.ReadMember("id", ip, 0, good()); err == nil {
		t.Error("port 0 is taken in")
	}
}

func TestWarningsOfUnreliableUDPNameTheMember(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes := starts(t, newFabric(), 2)
		serf.ReadLog(nodes[0].Cluster, fmt.Sprintf("[WARN] memberlist: Was able to connect to %s over TCP but UDP probes failed, network may be misconfigured\n", nodes[1].id))
		if w, ok := nodes[0].warned("gossip-udp"); !ok || !strings.Contains(w.Text, "node-2") {
			t.Errorf("warned %+v", w)
		}
	})
}

func TestLogKeepsNoPayload(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := start(t, config(1, newFabric().host(1)))
		for _, line := range []string{
			"[WARN] memberlist: Refuting an alive message for 'id' (10.0.0.1:1) meta:(SECRET VS SECRET), vsn:([1] VS [1])",
			"[ERR] serf: Invalid conflict query response type: SECRET",
			"[ERR] serf: " + strings.Repeat("x", 5000) + "SECRET",
		} {
			serf.ReadLog(n.Cluster, line)
		}
		if strings.Contains(n.log.String(), "SECRET") {
			t.Errorf("the log has %s", n.log)
		}
	})
}
