package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"viiwork/appliance/mesh"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// network is a network in memory, so that whole meshes run in a bubble of their own time.
type network struct {
	mu    sync.Mutex
	hosts map[string]*listener
	dials map[string]int
}

func newNetwork() *network { return &network{hosts: map[string]*listener{}, dials: map[string]int{}} }

func (n *network) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.hosts[addr]
	n.dials[addr]++
	n.mu.Unlock()
	if l == nil {
		return nil, errors.New("connection refused")
	}
	ours, theirs := net.Pipe()
	select {
	case l.conns <- &frozenConn{Conn: theirs, host: l}:
		return ours, nil
	case <-l.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (n *network) dialled(addr string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials[addr]
}

func (n *network) listen(addr string) *listener {
	l := &listener{net: n, addr: addr, conns: make(chan net.Conn, 64), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[addr] = l
	return l
}

// listener is one host. While it is frozen nothing leaves it, as with a process that was stopped.
type listener struct {
	net    *network
	addr   string
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu     sync.Mutex
	frozen chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(l.addr)) }

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.net.mu.Lock()
		defer l.net.mu.Unlock()
		if l.net.hosts[l.addr] == l {
			delete(l.net.hosts, l.addr)
		}
	})
	return nil
}

func (l *listener) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = make(chan struct{})
}

func (l *listener) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen != nil {
		close(l.frozen)
		l.frozen = nil
	}
}

type frozenConn struct {
	net.Conn
	host *listener
}

func (c *frozenConn) Write(p []byte) (int, error) {
	c.host.mu.Lock()
	frozen := c.host.frozen
	c.host.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	return c.Conn.Write(p)
}

func (c *frozenConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 9, 9, 9), Port: 1} }

var secret = []byte("0123456789abcdef0123456789abcdef")

func keys(t testing.TB, cfg mesh.KeyConfig) *mesh.Keyring {
	t.Helper()
	k, err := mesh.NewKeys(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return mesh.NewKeyring(k)
}

// node is one member with all its parts, over any network.
type node struct {
	mesh.Member
	t         testing.TB
	keys      *mesh.Keyring
	now       func() time.Time // nil = right
	dial      func(context.Context, string, string) (net.Conn, error)
	members   func() []mesh.Member
	signer    *mesh.Signer
	verifier  *mesh.Verifier
	publisher *mesh.Publisher
	client    *mesh.Client
	table     *mesh.Table
	watcher   *mesh.Watcher
	session   *mesh.SessionKey // nil = none
	known     *mesh.Register   // nil = it neither tells nor asks what backends hold
	handler   http.Handler     // besides the capacity; nil = none
	stop      func()
	// publisherEnds ends the publisher alone, as a node does before it stops answering.
	publisherEnds func()

	mu     sync.Mutex
	report mesh.Report
}

// id of the n-th node.
func member(n int) mesh.Member {
	return mesh.Member{ID: fmt.Sprintf("n%02d", n), Name: "node" + strconv.Itoa(n), Addr: fmt.Sprintf("10.0.0.%d:8086", n), Version: "2.0.0"}
}

func newNode(t testing.TB, m mesh.Member, k *mesh.Keyring, dial func(context.Context, string, string) (net.Conn, error)) *node {
	return &node{Member: m, t: t, keys: k, dial: dial, members: func() []mesh.Member { return nil }}
}

// start runs the node on l until the test or stop ends it.
func (n *node) start(l net.Listener) *node {
	n.signer = mesh.NewSigner(mesh.SignerConfig{ID: n.ID, Keys: n.keys, Now: n.now})
	n.verifier = mesh.NewVerifier(mesh.VerifierConfig{ID: n.ID, Keys: n.keys, Now: n.now})
	n.client = mesh.NewClient(mesh.ClientConfig{Signer: n.signer, Dial: n.dial})
	n.table = mesh.NewTable(0)
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() && os.Getenv("VIIWORK_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", n.Name)
	}
	n.publisher = mesh.NewPublisher(mesh.PublisherConfig{ID: n.ID, Name: n.Name, Version: n.Version, Verifier: n.verifier, Source: n.source, Session: n.session, Known: n.known, Log: log})
	n.watcher = mesh.NewWatcher(mesh.WatcherConfig{ID: n.ID, Members: n.members, Client: n.client, Table: n.table, Session: n.session, Known: n.known, Log: log})

	mux := http.NewServeMux()
	mux.Handle("/v1/capacity", n.publisher)
	if n.handler != nil {
		mux.Handle("/", n.handler)
	}
	server := &http.Server{Handler: mux}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	told, quiet := context.WithCancel(ctx)
	n.publisherEnds = quiet
	wg.Go(func() { check(n.t, n.publisher.Run(told)) })
	wg.Go(func() { _ = server.Serve(l) })
	wg.Go(func() { check(n.t, n.watcher.Run(ctx)) })
	n.stop = sync.OnceFunc(func() {
		cancel()
		_ = server.Close()
		wg.Wait()
		n.client.Close()
	})
	return n
}

func check(t testing.TB, err error) {
	if err != nil {
		t.Error(err)
	}
}

func (n *node) source() mesh.Report {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.report
}

// set changes what the node tells of itself.
func (n *node) set(r mesh.Report) {
	n.mu.Lock()
	n.report = r
	n.mu.Unlock()
	if n.publisher != nil {
		n.publisher.Changed()
	}
}

// sees is what n's table has of id.
func (n *node) sees(id string) mesh.NodeState {
	for _, s := range n.table.Snapshot() {
		if s.Member.ID == id {
			return s
		}
	}
	return mesh.NodeState{}
}

// free is what n would find free at id for model m, -1 when it would not ask there.
func (n *node) free(id string) int {
	m, ok := n.sees(id).Model("m")
	if !ok {
		return -1
	}
	_, free := m.Slots()
	return free
}

func capacity(free int) mesh.Report {
	return mesh.Report{Models: []mesh.Model{{Name: "m", Digest: "d", Context: 8192, Backends: []mesh.Backend{{ID: "m#0", Slots: 4, Free: free, Ready: true}}}}}
}

// pair is two nodes on a network in memory: a follows b.
func pair(t testing.TB, change func(a, b *node)) (a, b *node, lb *listener) {
	web := newNetwork()
	k := keys(t, mesh.KeyConfig{Secret: secret})
	a, b = newNode(t, member(1), k, web.DialContext), newNode(t, member(2), k, web.DialContext)
	a.members = func() []mesh.Member { return []mesh.Member{member(1), member(2)} }
	b.report = capacity(4)
	if change != nil {
		change(a, b)
	}
	lb = web.listen(b.Addr)
	b.start(lb)
	a.start(web.listen(a.Addr))
	t.Cleanup(func() { lb.thaw(); a.stop(); b.stop() })
	return a, b, lb
}
