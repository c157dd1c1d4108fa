package appliance_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/kvshare/transfer"
	"viiwork/appliance/mesh"
	"viiwork/tsnode"
	"viiwork/tsnode/localcontrol"
)

// BenchmarkCaches prints what caches travel at over a tailnet, directly and through its devices, beside bare copies between
// the same two devices, one in as much memory as it likes and one in as much as a node allows itself, and how much either end
// takes meanwhile: the receiver is this process, the sender another. All take turns.
func BenchmarkCaches(b *testing.B) {
	control, err := localcontrol.Start(localcontrol.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(control.Close)
	direct := hostAddr(b)
	sender := start(b, "caches", control.URL(), b.TempDir(), direct)
	device := benchDevice(b, cacheDevice(0, control.URL(), b.TempDir()))
	holds(b, "the devices know each other", func() bool { return len(device.Peers()) == 1 })
	s := newRepeated()
	copies := []func(){bareCopy(b, device, sender.url, s, barePort), bareCopy(b, device, sender.url, s, tightPort),
		fetcher(b, device, sender.url, s, false), fetcher(b, device, sender.url, s, true)}
	for _, c := range copies {
		c() // the first bytes between two devices find their way
	}
	var took [4]time.Duration
	var peaks [4][2]float64
	const rounds = 3
	for range rounds {
		for i, c := range copies {
			runtime.GC()
			debug.FreeOSMemory()
			time.Sleep(2 * time.Second) // so that either end has given back what the copy before took
			began, top := time.Now(), watchRSS(os.Getpid(), sender.cmd.Process.Pid)
			c()
			took[i] += time.Since(began)
			for end, mib := range top() {
				peaks[i][end] = max(peaks[i][end], mib)
			}
		}
	}
	for b.Loop() {
	}
	mbps := func(i int) float64 { return rounds * float64(s.manifest.Size) / 1e6 / took[i].Seconds() }
	b.ReportMetric(0, "ns/op")
	for i, name := range []string{"bare", "tight", "tailnet", "direct"} {
		b.ReportMetric(mbps(i), name+"-MB/s")
		b.ReportMetric(peaks[i][0], name+"-receiver-MiB")
		b.ReportMetric(peaks[i][1], name+"-sender-MiB")
	}
	b.ReportMetric(mbps(2)/mbps(0), "of-bare")
	b.ReportMetric(mbps(2)/mbps(1), "of-tight")
	b.ReportMetric(mbps(3)/mbps(2), "direct/tailnet")
}

func cacheDevice(i int, control, dir string) tsnode.Config {
	return tsnode.Config{Network: tsnode.Tailnet, Name: fmt.Sprint("kv", i), ControlURL: control, StateDir: dir,
		APIPort: cachePort, GossipPort: 7946, Log: slog.New(slog.DiscardHandler), Getenv: func(string) string { return "" }}
}

const (
	cachePort, barePort, tightPort = 8086, 9999, 9998
	// tight is as much memory as a node allows itself for this.
	tight = 192 << 20
)

// playCaches is the end that has the state. It prints where.
func playCaches(ctx context.Context, control, dir, direct string) error {
	n, err := tsnode.New(cacheDevice(1, control, dir))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { _ = n.Run(ctx) })
	<-n.Ready()
	s := newRepeated()
	client, verifier, err := cacheEnd("1", n, transfer.Config{Tailnet: true, Direct: []string{direct}, Port: portAt(direct), Trusted: func() bool { return true }})
	if err != nil {
		return err
	}
	server := transfer.NewServer(s, verifier, client)
	wg.Go(func() { _ = server.Run(ctx) })
	l, err := n.ListenStream(cachePort)
	if err != nil {
		return err
	}
	web := &http.Server{Handler: server}
	context.AfterFunc(ctx, func() { web.Close() })
	wg.Go(func() { _ = web.Serve(l) })
	for port, limit := range map[int]int64{barePort: math.MaxInt64, tightPort: tight} {
		l, err := n.ListenStream(port)
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { l.Close() })
		wg.Go(func() { s.pour(l, limit) })
	}
	fmt.Println(n.Addr())
	<-ctx.Done()
	return nil
}

// pour writes the whole state to whoever comes, in so much memory.
func (s *repeated) pour(l net.Listener, limit int64) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		before := debug.SetMemoryLimit(limit)
		for i := range s.all {
			if _, err := c.Write(s.order[i%len(s.order)]); err != nil {
				break
			}
		}
		c.Close()
		debug.SetMemoryLimit(before)
		runtime.GC()         // pools are emptied by the second collection
		debug.FreeOSMemory() // which is not what the next copy takes
	}
}

// cacheEnd is what one end is made of.
func cacheEnd(id string, n *tsnode.Node, cfg transfer.Config) (*transfer.Client, *mesh.Verifier, error) {
	keys, err := mesh.NewKeys(mesh.KeyConfig{Secret: []byte("0123456789abcdef0123456789abcdef")})
	if err != nil {
		return nil, nil, err
	}
	ring := mesh.NewKeyring(keys)
	cfg.Mesh = mesh.NewClient(mesh.ClientConfig{Signer: mesh.NewSigner(mesh.SignerConfig{ID: id, Keys: ring}), Dial: n.DialContext})
	client, err := transfer.NewClient(cfg)
	return client, mesh.NewVerifier(mesh.VerifierConfig{ID: id, Keys: ring}), err
}

// repeated is a large state of few chunks, so that what is measured of memory is not the state itself.
type repeated struct {
	manifest replica.Manifest
	all      []int
	chunks   map[replica.Sum][]byte
	order    [][]byte
}

func newRepeated() *repeated {
	const size, chunk = 256 << 20, 128 << 10
	s := &repeated{chunks: map[replica.Sum][]byte{}}
	random := rand.NewChaCha8([32]byte{1})
	for range 64 {
		c := make([]byte, chunk)
		_, _ = random.Read(c)
		s.chunks[sha256.Sum256(c)] = c
		s.order = append(s.order, c)
	}
	s.manifest.Size = size
	for i := range int(size / chunk) {
		sum := sha256.Sum256(s.order[i%len(s.order)])
		s.manifest.Chunks = append(s.manifest.Chunks, replica.Chunk{Sum: sum, Size: chunk})
		s.all = append(s.all, i)
	}
	return s
}

func (s *repeated) Manifest(context.Context, string) (transfer.State, error) {
	return transfer.State{Manifest: s.manifest}, nil
}

func (s *repeated) Chunk(sum replica.Sum, _ []byte) ([]byte, error) { return s.chunks[sum], nil }

// fetcher is a copy of the state by this program's own means.
func fetcher(b *testing.B, n *tsnode.Node, from string, s *repeated, direct bool) func() {
	client, _, err := cacheEnd("0", n, transfer.Config{Tailnet: true, Trusted: func() bool { return direct }})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	to := mesh.Member{ID: "1", Name: "kv1", Version: "2.0.0", Addr: net.JoinHostPort(from, strconv.Itoa(cachePort))}
	return func() {
		got, err := client.Fetch(context.Background(), to, s.manifest, s.all, func(int, []byte) error { return nil })
		if err != nil || (got.Path == "direct") != direct {
			b.Fatal(got, err)
		}
	}
}

// hostAddr is an address of this machine besides loopback ones: those are no direct path between devices.
func hostAddr(b *testing.B) string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		b.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	b.Skip("this machine has only loopback addresses")
	return ""
}

// bareCopy reads the same bytes from a connection between the devices.
func bareCopy(b *testing.B, n *tsnode.Node, from string, s *repeated, port int) func() {
	return func() {
		if port == tightPort {
			defer debug.SetMemoryLimit(debug.SetMemoryLimit(tight))
		}
		c, err := n.DialContext(context.Background(), "tcp", net.JoinHostPort(from, strconv.Itoa(port)))
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		n, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{c}, make([]byte, 128<<10))
		if err != nil || n != s.manifest.Size {
			b.Fatal(n, err)
		}
	}
}

// watchRSS notes how much memory processes take at most until it is asked, in MiB.
func watchRSS(pids ...int) (top func() []float64) {
	most := make([]float64, len(pids))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			for i, pid := range pids {
				statm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)) // elsewhere than on Linux it says 0
				if f := strings.Fields(string(statm)); len(f) > 1 {
					pages, _ := strconv.ParseFloat(f[1], 64)
					most[i] = max(most[i], pages*float64(os.Getpagesize())/(1<<20))
				}
			}
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	return func() []float64 {
		close(stop)
		<-stopped
		return most
	}
}
