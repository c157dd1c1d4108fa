package replica_test

import (
	"bytes"
	"crypto/sha256"
	"testing"
	"time"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/kvshare/replica/replicatest"
)

// BenchmarkCut cuts and hashes 256 MiB on one core, and prints how fast, and what part that is of the speed of hashing alone.
func BenchmarkCut(b *testing.B) {
	tokens := replicatest.Tokens(8<<10, 1)
	rows := replicatest.State(tokens, replicatest.Shape{Layers: 16, Row: 1024})
	for name, state := range map[string][]byte{"rows": rows, "content": append([]byte("x"), rows...)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var cut, hashed time.Duration
			for b.Loop() {
				began := time.Now()
				s, err := replica.Read(bytes.NewReader(state), int64(len(state)))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := s.Cut(b.Context(), key, func(replica.Chunk, []byte) error { return nil }); err != nil {
					b.Fatal(err)
				}
				cut += time.Since(began)
				began = time.Now()
				sha256.Sum256(state)
				hashed += time.Since(began)
			}
			b.ReportMetric(float64(b.N)*float64(len(state))/cut.Seconds()/1e6, "cut-MB/s")
			b.ReportMetric(hashed.Seconds()/cut.Seconds(), "of-hashing")
		})
	}
}
