package store_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/kvshare/replica/replicatest"
	"viiwork/appliance/kvshare/store"
)

var large = replicatest.Shape{Layers: 16, Row: 1024} // 32 KiB a token

// BenchmarkAssemble puts a state of 256 MiB together from its chunks, and prints how much longer that takes than to copy
// the same bytes from one file to another. Files are in the same folder, and their bytes in memory.
func BenchmarkAssemble(b *testing.B) {
	f := open(b, 1<<30)
	whole := replicatest.State(replicatest.Tokens(8<<10, 1), large)
	f.save("aa", whole[:len(whole)/2]) // so that it lies in several packs
	f.save("aa", whole)
	dir := b.TempDir()
	source := filepath.Join(dir, "source")
	must(b, os.WriteFile(source, whole, 0o600))
	r, err := f.Reader("aa", key)
	must(b, err)
	defer r.Close()
	var assembled, copied time.Duration
	b.SetBytes(int64(len(whole)))
	n := 0
	for b.Loop() {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		began := time.Now()
		must(b, r.Assemble(b.Context(), path))
		assembled += time.Since(began)
		must(b, os.Remove(path))
		began = time.Now()
		must(b, plainCopy(source, path))
		copied += time.Since(began)
		must(b, os.Remove(path))
	}
	b.ReportMetric(assembled.Seconds()/copied.Seconds(), "x-of-a-copy")
	b.ReportMetric(float64(len(whole))*float64(n)/assembled.Seconds()/1e6, "assembled-MB/s")
}

// plainCopy copies through a buffer, as any program does; the kernel's own copying would share blocks on some disks.
func plainCopy(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, make([]byte, mib)); err != nil {
		return err
	}
	return out.Close()
}

// BenchmarkSaveSuccessor saves a state of 256 MiB of which a turn of 250 tokens is new, fsyncs included.
func BenchmarkSaveSuccessor(b *testing.B) {
	f := open(b, 2<<30)
	tokens := replicatest.Tokens(10<<10, 1)
	turn := 0
	f.save("aa", replicatest.State(tokens[:8000], large))
	for b.Loop() {
		b.StopTimer()
		turn++
		next := replicatest.State(tokens[:8000+250*(turn%8)], large)
		s, err := replica.Read(bytes.NewReader(next), int64(len(next)))
		must(b, err)
		b.StartTimer()
		_, added, err := f.Save(b.Context(), store.Name("aa"), key, s)
		must(b, err)
		b.SetBytes(int64(len(next)))
		b.ReportMetric(float64(added.Bytes)/float64(len(next)), "new")
	}
}
