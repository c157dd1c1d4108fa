package gateway_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/gateway"
	"viiwork/appliance/mesh"
	"viiwork/engine"
	"viiwork/engine/llama"
)

var sessionKey = []byte("0123456789abcdef0123456789abcdef")

// meshSecret is the test's own: the port of a node that has ended may be given to one of another test.
func meshSecret(t testing.TB) []byte {
	test, _, _ := strings.Cut(t.Name(), "/")
	sum := sha256.Sum256([]byte(test))
	return sum[:]
}

func meshKeys(t testing.TB, secret []byte) *mesh.Keyring {
	t.Helper()
	k, err := mesh.NewKeys(mesh.KeyConfig{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	return mesh.NewKeyring(k)
}

// peer is a node of a mesh: a node as the others are, with all its parts between nodes.
type peer struct {
	node
	mesh.Member
	host    *host
	table   *mesh.Table
	known   *mesh.Register
	signer  *mesh.Signer
	client2 *mesh.Client // to members
	watcher *mesh.Watcher
}

// fleet is some nodes that know each other.
type fleet struct {
	t     testing.TB
	keys  *mesh.Keyring
	peers []*peer
	extra []mesh.Member // members that are no viiwork
}

// spec is what a node of a fleet serves.
type spec struct {
	models []engine.Model
	change func(*gateway.Config)
}

// newFleet starts nodes named a, b, c… and waits until each sees what the others have. extra are members besides.
func newFleet(t testing.TB, extra []mesh.Member, specs ...spec) *fleet {
	t.Helper()
	f := &fleet{t: t, keys: meshKeys(t, meshSecret(t)), extra: extra}
	for i := range specs {
		h := newHost(t)
		name := string(rune('a' + i))
		f.peers = append(f.peers, &peer{host: h, Member: mesh.Member{ID: "id-" + name, Name: name, Addr: h.Addr().String(), Version: "test"}})
	}
	for i, s := range specs {
		f.start(f.peers[i], s)
	}
	for _, p := range f.peers {
		p.ready()
	}
	for _, p := range f.peers {
		p.until("all members heard and ready", func() bool {
			for _, s := range p.table.Snapshot() {
				if s.Report == nil || !reportReady(s.Report) {
					return false
				}
			}
			return len(p.table.Snapshot()) == len(f.members())-1
		})
	}
	return f
}

func reportReady(r *mesh.Report) bool {
	for _, m := range r.Models {
		for _, b := range m.Backends {
			if !b.Ready {
				return false
			}
		}
	}
	return true
}

func (f *fleet) members() []mesh.Member {
	all := append([]mesh.Member{}, f.extra...)
	for _, p := range f.peers {
		all = append(all, p.Member)
	}
	return all
}

func (f *fleet) start(p *peer, s spec) {
	t := f.t
	p.t, p.client = t, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	dialer := &http.Client{Transport: &http.Transport{}}
	var err error
	var publisher atomic.Pointer[mesh.Publisher]
	var front atomic.Pointer[gateway.Gateway]
	changed := func() {
		if told := publisher.Load(); told != nil {
			told.Changed()
		}
		if g := front.Load(); g != nil {
			g.Changed()
		}
	}
	if p.e, err = engine.New(engine.Config{Node: p.Name, Dialect: llama.New(dialer), QueueMax: 256, Changed: changed}); err != nil {
		t.Fatal(err)
	}
	p.e.Apply(s.models)
	p.table = mesh.NewTable(0)
	p.signer = mesh.NewSigner(mesh.SignerConfig{ID: p.ID, Keys: f.keys})
	verifier := mesh.NewVerifier(mesh.VerifierConfig{ID: p.ID, Keys: f.keys})
	p.client2 = mesh.NewClient(mesh.ClientConfig{Signer: p.signer, Dial: dialLoopback})
	p.known = mesh.NewRegister(mesh.RegisterConfig{})
	cfg := gateway.Config{Node: p.Name, Version: "test", Engine: p.e, Known: p.known, News: changed, SessionKey: func() []byte { return sessionKey }}
	if s.change != nil {
		s.change(&cfg)
	}
	p.g = gateway.New(cfg)
	front.Store(p.g)
	desk := mesh.NewDesk(p.g.DeskConfig(verifier, p.table))
	p.g.Join(gateway.Mesh{ID: p.ID, Table: p.table, Client: p.client2, Verifier: verifier, Desk: desk})
	capacity := mesh.NewPublisher(mesh.PublisherConfig{ID: p.ID, Name: p.Name, Version: "test", Source: p.g.Report, Known: p.known, Verifier: verifier})
	publisher.Store(capacity)
	p.watcher = mesh.NewWatcher(mesh.WatcherConfig{ID: p.ID, Members: f.members, Client: p.client2, Table: p.table, Known: p.known})
	web := echo.New()
	p.g.Mount(web)
	web.GET("/v1/capacity", echo.WrapHandler(capacity))
	web.Any("/v1/lease", echo.WrapHandler(desk))
	web.Any("/v1/lease/:id", echo.WrapHandler(desk))
	srv := httptest.NewUnstartedServer(web)
	srv.Listener.Close()
	srv.Listener = p.host
	srv.Start()
	p.url = srv.URL
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.e.Run(ctx) })
	wg.Go(func() { _ = capacity.Run(ctx) })
	wg.Go(func() { _ = desk.Run(ctx) })
	wg.Go(func() { _ = p.watcher.Run(ctx) })
	t.Cleanup(func() {
		p.host.thaw()
		p.client.CloseIdleConnections()
		cancel()
		srv.CloseClientConnections()
		srv.Close()
		wg.Wait()
		p.client2.Close()
		dialer.CloseIdleConnections()
	})
}

// sees is what p's table has of another node.
func (p *peer) sees(id string) mesh.NodeState {
	for _, s := range p.table.Snapshot() {
		if s.Member.ID == id {
			return s
		}
	}
	return mesh.NodeState{Age: -1}
}

// seesFree waits until p believes that many slots of a model free at a member.
func (p *peer) seesFree(id, model string, free int) {
	p.t.Helper()
	p.until(fmt.Sprintf("%s sees %d free at %s", p.Name, free, id), func() bool {
		m, ok := p.sees(id).Model(model)
		_, n := m.Slots()
		return ok && n == free
	})
}

// forward sends a request as a member would; change may spoil it after it was signed.
func (p *peer) forward(to *peer, path, body string, change func(*http.Request)) reply {
	p.t.Helper()
	req, err := http.NewRequest("POST", to.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("X-Viiwork-Hop", "1")
	p.signer.Sign(req, to.ID, sha256.Sum256([]byte(body)))
	if change != nil {
		change(req)
	}
	return p.send(req)
}

// host is a listener whose machine can be stopped: while it is frozen no byte leaves or enters it, as with SIGSTOP.
type host struct {
	net.Listener

	mu     sync.Mutex
	frozen chan struct{}
	conns  []net.Conn
}

func newHost(t testing.TB) *host {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return &host{Listener: l}
}

func (h *host) Accept() (net.Conn, error) {
	c, err := h.Listener.Accept()
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.conns = append(h.conns, c)
	h.mu.Unlock()
	return &hostConn{c, h}, nil
}

func (h *host) freeze() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.frozen = make(chan struct{})
}

func (h *host) thaw() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.frozen != nil {
		close(h.frozen)
		h.frozen = nil
	}
}

// die ends the machine: its connections are reset and new ones refused.
func (h *host) die() {
	h.Listener.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		_ = c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
}

func (h *host) wait() {
	h.mu.Lock()
	frozen := h.frozen
	h.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

type hostConn struct {
	net.Conn
	h *host
}

func (c *hostConn) Write(p []byte) (int, error) { c.h.wait(); return c.Conn.Write(p) }

func (c *hostConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.h.wait()
	return n, err
}

// rogue is a member that tells of free slots, grants every seat that it is asked for, and answers inference as it likes.
type rogue struct {
	mesh.Member
	host *host

	mu     sync.Mutex
	seen   int
	told   int // how often its capacity had news
	answer http.HandlerFunc
	seats  http.HandlerFunc // answers who asks for one; nil = each gets one
	known  *mesh.Register   // what it says it holds
	lent   int              // how often it was asked for one
	poke   func()
}

func newRogue(t testing.TB, slots int, model string, answer http.HandlerFunc) *rogue {
	return newRogueNamed(t, "rogue", slots, model, answer)
}

func newRogueNamed(t testing.TB, name string, slots int, model string, answer http.HandlerFunc) *rogue {
	h := newHost(t)
	r := &rogue{Member: mesh.Member{ID: "id-" + name, Name: name, Addr: h.Addr().String(), Version: "test"}, host: h, answer: answer, known: mesh.NewRegister(mesh.RegisterConfig{})}
	verifier := mesh.NewVerifier(mesh.VerifierConfig{ID: r.ID, Keys: meshKeys(t, meshSecret(t))})
	publisher := mesh.NewPublisher(mesh.PublisherConfig{ID: r.ID, Name: r.Name, Version: "test", Verifier: verifier, Known: r.known, Source: func() mesh.Report {
		r.mu.Lock()
		defer r.mu.Unlock()
		return mesh.Report{Models: []mesh.Model{{Name: model, Context: 4096, Waiting: r.told, Backends: []mesh.Backend{{ID: "r#0", Slots: slots, Free: slots, Ready: true}}}}}
	}})
	r.poke = publisher.Changed
	mux := http.NewServeMux()
	mux.Handle("/v1/capacity", publisher)
	mux.HandleFunc("/v1/lease", r.lend)
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.seen++
		answer := r.answer
		r.mu.Unlock()
		answer(w, req)
	})
	srv := &http.Server{Handler: mux}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(h) })
	wg.Go(func() { _ = publisher.Run(ctx) })
	t.Cleanup(func() { h.thaw(); cancel(); srv.Close(); wg.Wait() })
	return r
}

// lend grants a seat, unless seats says something else.
func (r *rogue) lend(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.lent++
	seats := r.seats
	r.mu.Unlock()
	if seats != nil {
		seats(w, req)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"lease":"AAAAAAAAAAAAAAAAAAAAAA","backend":"r#0"}`)
}

func (r *rogue) asked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

func (r *rogue) says(answer http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// news makes it tell its capacity again at once, as if it had changed.
func (r *rogue) news() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told++
	r.poke()
}

func dialLoopback(ctx context.Context, network, addr string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}
