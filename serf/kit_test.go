package serf_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/serf"
)

// wired is a network that knows its gossip address.
type wired interface {
	serf.Network
	addrPort() netip.AddrPort
}

// node is a running Cluster.
type node struct {
	*serf.Cluster
	t      *testing.T
	id     string
	net    wired
	log    *syncBuffer
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of Run, once done is closed
}

// config of node n, to be changed before start.
func config(n int, network wired) serf.Config {
	return serf.Config{
		ID: fmt.Sprintf("id-%04d", n), Name: fmt.Sprintf("node-%d", n),
		API:     netip.AddrPortFrom(network.Addr(), 8086),
		Version: "3.0.0", Wire: 1, Network: network,
	}
}

// start runs a node until it is ready or has given up; it is stopped with the test.
func start(t *testing.T, cfg serf.Config) *node {
	t.Helper()
	n := &node{t: t, id: cfg.ID, net: cfg.Network.(wired), log: new(syncBuffer), done: make(chan struct{})}
	cfg.Log = slog.New(slog.NewTextHandler(n.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	if n.Cluster, err = serf.New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	go func() {
		defer close(n.done)
		n.err = n.Run(ctx)
	}()
	t.Cleanup(n.kill)
	select {
	case <-n.Ready():
	case <-n.done:
		t.Fatalf("starting %s: %v", cfg.ID, n.err)
	}
	return n
}

// starts n nodes of the fabric, all of which but the first join the first.
func starts(t *testing.T, f *fabric, n int) []*node {
	t.Helper()
	var nodes []*node
	for i := range n {
		nodes = append(nodes, start(t, config(i+1, f.host(i+1))))
		if i > 0 {
			nodes[i].join(nodes[0])
		}
	}
	waitAll(t, nodes, time.Minute)
	return nodes
}

// kill stops the node without a word to the others.
func (n *node) kill() {
	n.Stop()
	<-n.done
	n.cancel()
}

// leave stops the node gracefully and returns what Run returned.
func (n *node) leave() error {
	n.cancel()
	<-n.done
	return n.err
}

func (n *node) join(other *node) {
	n.t.Helper()
	if met, err := n.Join(context.Background(), []netip.AddrPort{other.net.addrPort()}); met != 1 || err != nil {
		n.t.Fatalf("%s joining %s: %d met, %v", n.id, other.id, met, err)
	}
}

// sees says what n knows of a member, "" for nothing.
func (n *node) sees(id string) serf.State { return n.member(id).State }

func (n *node) member(id string) serf.Member {
	for _, m := range n.Members() {
		if m.ID == id {
			return m
		}
	}
	return serf.Member{}
}

// alive returns the ids of the living members.
func (n *node) alive() []string {
	var ids []string
	for _, m := range n.Members() {
		if m.State == serf.StateAlive {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// warned returns the warning of this kind.
func (n *node) warned(id string) (serf.Warning, bool) {
	all := n.Warnings()
	if i := slices.IndexFunc(all, func(w serf.Warning) bool { return w.ID == id }); i >= 0 {
		return all[i], true
	}
	return serf.Warning{}, false
}

// waitAll waits until every node sees exactly all of nodes alive.
func waitAll(t *testing.T, nodes []*node, limit time.Duration) time.Duration {
	t.Helper()
	var want []string
	for _, n := range nodes {
		want = append(want, n.id)
	}
	slices.Sort(want)
	return wait(t, limit, "all see all", func() bool {
		return !slices.ContainsFunc(nodes, func(n *node) bool { return !slices.Equal(n.alive(), want) })
	})
}

// wait returns how long it took until ok; in a bubble that is simulated time.
func wait(t *testing.T, limit time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !ok() {
		if time.Since(begin) > limit {
			t.Fatalf("after %s still not: %s", limit, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(begin)
}

// syncBuffer is a log that many write.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// count of lines with all these words.
func (b *syncBuffer) count(words ...string) int {
	n := 0
	for line := range strings.Lines(b.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}

func key(fill byte) []byte { return bytes.Repeat([]byte{fill}, 32) }

// bubble runs test in simulated time. What the library's goroutines still wait for after a shutdown, a probe's end or
// a dead peer's answer, comes while it sleeps in the end; a goroutine that never ends fails the test.
func bubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) })
		test(t)
	})
}
