package mesh_test

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"viiwork/appliance/mesh"
)

// counted is a connection whose bytes are counted, both ways.
type counted struct {
	net.Conn
	bytes *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

// swarm is a full mesh of n nodes over loopback TCP.
func swarm(t testing.TB, n int) (nodes []*node, bytes *atomic.Int64) {
	bytes = &atomic.Int64{}
	k := keys(t, mesh.KeyConfig{Secret: secret})
	var members []mesh.Member
	var listeners []net.Listener
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		m := member(i)
		m.Addr = l.Addr().String()
		members, listeners = append(members, m), append(listeners, l)
	}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return counted{c, bytes}, nil
	}
	for i, m := range members {
		node := newNode(t, m, k, dial)
		node.members = func() []mesh.Member { return members }
		node.report = capacity(4)
		nodes = append(nodes, node.start(listeners[i]))
		t.Cleanup(node.stop)
	}
	return nodes, bytes
}

// until waits for a condition without which the test has failed.
func until(t testing.TB, what string, holds func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !holds() {
		if time.Since(begin) > 30*time.Second {
			t.Fatal(what)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(begin)
}

func allSee(nodes []*node, id string, free int) bool {
	for _, n := range nodes {
		if n.ID != id && n.free(id) != free {
			return false
		}
	}
	return true
}

func TestTwentyMembersSeeEachOther(t *testing.T) {
	nodes, bytes := swarm(t, 20)
	took := until(t, "they do not see each other", func() bool {
		for _, n := range nodes {
			if !allSee(nodes, n.ID, 4) {
				return false
			}
		}
		return true
	})
	nodes[3].set(capacity(1))
	change := until(t, "a change does not reach all", func() bool { return allSee(nodes, nodes[3].ID, 1) })
	before, cpu := bytes.Load(), cpuTime()
	time.Sleep(3 * time.Second)
	t.Logf("20 nodes: all see all after %v, a change after %v; at rest %.2f kB/s and %.2f %% of a core a node",
		took, change, float64(bytes.Load()-before)*2/3/20/1000, float64(cpuTime()-cpu)/float64(3*time.Second)/20*100)
	for _, n := range nodes {
		if w := n.watcher.Warnings(); len(w) != 0 {
			t.Errorf("%s: %+v", n.Name, w)
		}
	}
}

// cpuTime is what this process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkMesh16 prints what a node of 16 costs while slots are taken and given back 1.4 times a second on each.
func BenchmarkMesh16(b *testing.B) {
	nodes, bytes := swarm(b, 16)
	until(b, "they do not see each other", func() bool { return allSee(nodes, nodes[0].ID, 4) })
	before, cpu, begin := bytes.Load(), cpuTime(), time.Now()
	for i := 0; i < b.N || time.Since(begin) < 5*time.Second; i++ {
		nodes[i%16].set(capacity(i / 16 % 5))
		time.Sleep(time.Second * 10 / 14 / 16)
	}
	passed := time.Since(begin).Seconds()
	b.ReportMetric(float64(bytes.Load()-before)*2/passed/16/1000, "kB/s/node")
	b.ReportMetric((cpuTime()-cpu).Seconds()/passed/16*100, "%core/node")
}

func BenchmarkSignAndCheck(b *testing.B) {
	s, v := ends(b, keys(b, mesh.KeyConfig{Secret: secret}))
	for b.Loop() {
		r, _ := http.NewRequest(http.MethodPost, "http://10.0.0.2:8086/v1/chat/completions", nil)
		s.Sign(r, "n02", [32]byte{})
		if _, err := v.Check(r); err != nil && code(err) != "busy" {
			b.Fatal(err)
		}
	}
}

func BenchmarkSnapshot64(b *testing.B) {
	others := make([]mesh.Member, 64)
	for i := range others {
		others[i] = member(i + 100)
	}
	table := mesh.NewTable(0)
	mesh.Fill(table, others, capacity(3))
	b.ReportAllocs()
	for b.Loop() {
		if len(table.Snapshot()) != 64 {
			b.Fatal("lost some")
		}
	}
}
