package transfer_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"viiwork/appliance/kvshare/transfer"
	"viiwork/appliance/mesh"
)

// BenchmarkDirect prints what the direct path carries, beside a bare copy of the same bytes through TLS 1.3 with the same hash
// at its end, and beside the mesh's own path. All three go over loopback, turn by turn.
func BenchmarkDirect(b *testing.B) {
	const chunk = 128 << 10
	s := newStates(512<<20/chunk, chunk)
	k, port := keys(b, mesh.KeyConfig{Secret: secret}), freePort(b)
	has := start(b, "b", plan{keys: k, source: s, direct: port})
	awaitDirect(b, port)
	slow := func(ctx context.Context, network, addr string) (net.Conn, error) { // else it would be the faster one here
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &slowConn{c, new(atomic.Int64)}, err
	}
	asks := start(b, "a", plan{keys: k, source: s, dial: slow})
	bare := bareTLS(b, asks, has, s)
	plain := start(b, "p", plan{keys: k, source: s, config: func(c *transfer.Config) { c.Trusted = nil }})
	var took [3]time.Duration
	copies := []func(){
		bare,
		func() { fetchAll(b, asks, has, s, "direct") },
		func() { fetchAll(b, plain, has, s, "mesh") },
	}
	for _, c := range copies {
		c()
	}
	peak := uint64(0)
	for b.Loop() {
		for i, c := range copies {
			runtime.GC()
			began := time.Now()
			c()
			took[i] += time.Since(began)
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse)
		}
	}
	mbps := func(i int) float64 { return float64(b.N) * float64(s.manifest.Size) / 1e6 / took[i].Seconds() }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(mbps(0), "bare-MB/s")
	b.ReportMetric(mbps(1), "direct-MB/s")
	b.ReportMetric(mbps(2), "mesh-MB/s")
	b.ReportMetric(mbps(1)/mbps(0), "of-bare")
	b.ReportMetric((float64(peak)-float64(len(s.bytes)))/(1<<20), "heap-MiB")
}

func fetchAll(b *testing.B, asks, has *node, s *states, path string) {
	b.Helper()
	got, err := asks.client.Fetch(context.Background(), has.Member, s.manifest, s.all(), func(int, []byte) error { return nil })
	if err != nil || got.Path != path {
		b.Fatal(got, err)
	}
}

// bareTLS is a copy that does nothing but what cannot be left out.
func bareTLS(b *testing.B, asks, has *node, s *states) func() {
	cfg := &tls.Config{Certificates: asks.client.Dials(has.client).Certificates, MinVersion: tls.VersionTLS13}
	l, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write(s.bytes)
			c.Close()
		}
	}()
	size := int(s.manifest.Chunks[0].Size)
	return func() {
		c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		buf := make([]byte, size)
		for _, want := range s.manifest.Chunks {
			if _, err := io.ReadFull(c, buf); err != nil || sha256.Sum256(buf) != want.Sum {
				b.Fatal(err)
			}
		}
	}
}
