package modelcopy_test

import (
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkPull prints what a copy over loopback carries, beside reading the same file and writing it with two sums over its
// bytes, which is what cannot be left out.
func BenchmarkPull(b *testing.B) {
	const size = 256 << 20
	g := newGiver(b, map[string]int{"sub/m.gguf": size}, one)
	a := newAsker(b, g)
	var bare, pulled time.Duration
	for b.Loop() {
		began := time.Now()
		copyBare(b, filepath.Join(g.dir, "sub/m.gguf"), filepath.Join(a.dir, "bare"))
		bare += time.Since(began)
		began = time.Now()
		if _, err := a.pull(b.Context()); err != nil {
			b.Fatal(err)
		}
		pulled += time.Since(began)
		if err := os.Remove(filepath.Join(a.dir, "m.gguf")); err != nil {
			b.Fatal(err)
		}
	}
	mbps := func(d time.Duration) float64 { return float64(b.N) * size / 1e6 / d.Seconds() }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(mbps(bare), "bare-MB/s")
	b.ReportMetric(mbps(pulled), "pull-MB/s")
	b.ReportMetric(mbps(pulled)/mbps(bare), "of-bare")
}

func copyBare(b *testing.B, from, to string) {
	in, err := os.Open(from)
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	if _, err := io.Copy(io.MultiWriter(out, sha256.New(), sha256.New()), in); err != nil {
		b.Fatal(err)
	}
	if err := out.Sync(); err != nil {
		b.Fatal(err)
	}
}
