package transfer_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/kvshare/transfer"
	"viiwork/appliance/mesh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	mib      = 1 << 20
	patience = time.Minute
	link     = "00112233445566778899aabbccddeeff"
)

var (
	secret = []byte("0123456789abcdef0123456789abcdef")
	other  = []byte("fedcba9876543210fedcba9876543210")
)

func keys(t testing.TB, cfg mesh.KeyConfig) mesh.Keys {
	t.Helper()
	k, err := mesh.NewKeys(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// states is a source in memory.
type states struct {
	manifest replica.Manifest
	bytes    []byte
	at       map[replica.Sum]int // where a chunk begins
	// asked is called before a chunk is given; what it returns takes the chunk's place. nil = the chunk is.
	asked func(n int, b []byte) ([]byte, error)

	mu sync.Mutex // guards what follows
	n  int        // chunks asked for so far
}

var errGone = errors.New("gone")

// newStates makes one state of so many chunks of one size, all different.
func newStates(chunks, size int) *states {
	s := &states{bytes: make([]byte, chunks*size), at: map[replica.Sum]int{}}
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(s.bytes)
	s.manifest = replica.Manifest{
		Key:    replica.Key{Model: "v1:0123", Build: "0.7.0 (11669)", CacheK: "f16", CacheV: "f16", Flash: true},
		Layout: replica.LayoutContent, Size: int64(len(s.bytes)),
	}
	for i := range chunks {
		sum := sha256.Sum256(s.bytes[i*size : (i+1)*size])
		s.at[sum] = i * size
		s.manifest.Chunks = append(s.manifest.Chunks, replica.Chunk{Sum: sum, Size: uint32(size)})
	}
	return s
}

func (s *states) Manifest(_ context.Context, l string) (transfer.State, error) {
	if l != link {
		return transfer.State{}, errGone
	}
	return transfer.State{Name: link, Last: link, Manifest: s.manifest}, nil
}

func (s *states) Chunk(sum replica.Sum, _ []byte) ([]byte, error) {
	at, ok := s.at[sum]
	if !ok {
		return nil, errGone
	}
	b := s.bytes[at : at+int(s.manifest.Chunks[0].Size)]
	s.mu.Lock()
	n := s.n
	s.n++
	s.mu.Unlock()
	if s.asked != nil {
		return s.asked(n, b)
	}
	return b, nil
}

func (s *states) all() []int {
	all := make([]int, len(s.manifest.Chunks))
	for i := range all {
		all[i] = i
	}
	return all
}

// node is one member with what carries its caches.
type node struct {
	mesh.Member
	keys   *mesh.Keyring
	mesh   *mesh.Client
	client *transfer.Client
	server *transfer.Server
	stop   func() // ends the server's Run
}

// plan is what a node is made of.
type plan struct {
	keys   mesh.Keys
	source transfer.Source                                         // nil = it only asks
	direct int                                                     // port to offer a direct path at; 0 = none
	wrong  http.Handler                                            // answers instead of the server
	dial   func(context.Context, string, string) (net.Conn, error) // nil = as it is
	listen func() net.Listener                                     // nil = on 127.0.0.1
	config func(*transfer.Config)                                  // changes it; nil = not
	wrap   func(http.Handler) http.Handler                         // nil = not
}

// start runs a node until the test ends.
func start(t testing.TB, id string, p plan) *node {
	t.Helper()
	n := &node{keys: mesh.NewKeyring(p.keys), Member: mesh.Member{ID: id, Name: id, Version: "2.0.0"}}
	var l net.Listener
	var err error
	if p.listen != nil {
		l = p.listen()
	} else if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	n.Addr = l.Addr().String()
	if p.dial == nil {
		p.dial = new(net.Dialer).DialContext
	}
	n.mesh = mesh.NewClient(mesh.ClientConfig{Signer: mesh.NewSigner(mesh.SignerConfig{ID: id, Keys: n.keys}), Dial: p.dial})
	cfg := transfer.Config{Mesh: n.mesh, Trusted: func() bool { return n.keys.Load().Secured() }}
	if p.direct != 0 {
		cfg.Direct, cfg.Port = []string{"127.0.0.1"}, p.direct
	}
	if p.config != nil {
		p.config(&cfg)
	}
	if n.client, err = transfer.NewClient(cfg); err != nil {
		t.Fatal(err)
	}
	n.server = transfer.NewServer(p.source, mesh.NewVerifier(mesh.VerifierConfig{ID: id, Keys: n.keys}), n.client)
	var handler http.Handler = n.server
	if p.wrong != nil {
		handler = p.wrong
	}
	if p.wrap != nil {
		handler = p.wrap(handler)
	}
	web := &http.Server{Handler: handler}
	ctx, cancel := context.WithCancel(context.Background())
	var wg, run sync.WaitGroup
	wg.Go(func() { _ = web.Serve(l) })
	run.Go(func() {
		if err := n.server.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	n.stop = func() { cancel(); run.Wait() }
	t.Cleanup(func() {
		n.stop()
		_ = web.Close()
		n.mesh.Close()
		wg.Wait()
	})
	return n
}

// pair is one who asks and one who has the source, both of a secured mesh; with a direct path if port is not 0.
func pair(t testing.TB, source transfer.Source, port int) (asks, has *node) {
	t.Helper()
	k := keys(t, mesh.KeyConfig{Secret: secret})
	asks = start(t, "a", plan{keys: k, source: &states{}})
	has = start(t, "b", plan{keys: k, source: source, direct: port})
	if port != 0 {
		awaitDirect(t, port)
	}
	return asks, has
}

// freePort is one that nobody listens on at this moment, another one each time. It is none of those that the system
// hands out by itself: a node that is stopped and started again wants its own back.
func freePort(t testing.TB) int {
	t.Helper()
	var err error
	for range 100 {
		port := int(10000 + nextPort.Add(1)%4000)
		var l net.Listener
		if l, err = net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("looking for a free port: ", err)
	return 0
}

var nextPort atomic.Uint32

func init() { nextPort.Store(rand.Uint32N(4000)) }

// awaitDirect waits until somebody listens.
func awaitDirect(t testing.TB, port int) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		c, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal("the direct path does not open: ", err)
		}
		time.Sleep(time.Millisecond)
	}
}

// arrival is what has come of a state.
type arrival struct {
	t   testing.TB
	src *states

	mu   sync.Mutex // guards what follows
	once map[int]int
	want func(i int) error // called at each chunk; nil = not
}

func arrive(t testing.TB, s *states) *arrival { return &arrival{t: t, src: s, once: map[int]int{}} }

// put holds every chunk against the one it should be.
func (a *arrival) put(i int, b []byte) error {
	c := a.src.manifest.Chunks[i]
	at := a.src.at[c.Sum]
	if !bytes.Equal(b, a.src.bytes[at:at+int(c.Size)]) {
		a.t.Errorf("chunk %d is not the right one", i)
	}
	a.mu.Lock()
	a.once[i]++
	a.mu.Unlock()
	if a.want != nil {
		return a.want(i)
	}
	return nil
}

// isWhole checks that each chunk came, and came once.
func (a *arrival) isWhole() {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.once) != len(a.src.manifest.Chunks) {
		a.t.Errorf("%d chunks of %d came", len(a.once), len(a.src.manifest.Chunks))
	}
	for i, n := range a.once {
		if n != 1 {
			a.t.Errorf("chunk %d came %d times", i, n)
		}
	}
}

func (a *arrival) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.once)
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
