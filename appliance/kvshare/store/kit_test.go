package store_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/kvshare/replica/replicatest"
	"viiwork/appliance/kvshare/store"
)

var key = replica.Key{Model: "v1:0123", Build: "0.7.0 (11669)", CacheK: "f16", CacheV: "f16", Flash: true}

const mib = 1 << 20

// clock is a time that tests set.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// fixture is a folder, and a store in it that can be opened again.
type fixture struct {
	testing.TB
	*store.Store
	cfg   store.Config
	clock *clock
	log   *bytes.Buffer
}

// open opens a store of budget bytes in a new folder.
func open(t testing.TB, budget int64) *fixture {
	f := &fixture{TB: t, clock: &clock{at: time.Now().Truncate(time.Second)}, log: &bytes.Buffer{}}
	f.cfg = store.Config{
		Dir: filepath.Join(t.TempDir(), "kv"), Budget: budget, KeepFree: 1, Now: f.clock.now,
		Log: slog.New(slog.NewTextHandler(&locked{w: f.log}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	f.reopen()
	t.Cleanup(func() { f.Close() })
	return f
}

type locked struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// reopen does what a new process would; the store before is left as a crash would leave it.
func (f *fixture) reopen() {
	f.Helper()
	s, err := store.Open(f.cfg)
	if err != nil {
		f.Fatal(err)
	}
	if old := f.Store; old != nil {
		f.Cleanup(func() { old.Close() })
	}
	f.Store = s
}

// state is a conversation's state after n tokens: 2 KiB for each.
func state(n int, conversation uint64) []byte {
	return replicatest.State(replicatest.Tokens(n, conversation), replicatest.Shape{})
}

func (f *fixture) save(n store.Name, state []byte) (replica.Manifest, store.Added) {
	f.Helper()
	m, added, err := f.trySave(n, state)
	if err != nil {
		f.Fatal(err)
	}
	return m, added
}

func (f *fixture) trySave(n store.Name, state []byte) (replica.Manifest, store.Added, error) {
	f.Helper()
	s, err := replica.Read(bytes.NewReader(state), int64(len(state)))
	if err != nil {
		f.Fatal(err)
	}
	return f.Save(f.Context(), n, key, s)
}

// assemble gives the bytes of a replica.
func (f *fixture) assemble(n store.Name) ([]byte, error) {
	r, err := f.Reader(n, key)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	path := filepath.Join(f.TempDir(), "state")
	if err := r.Assemble(f.Context(), path); err != nil {
		if _, gone := os.Lstat(path); gone == nil {
			f.Error("a file that could not be assembled was left behind")
		}
		return nil, err
	}
	return os.ReadFile(path)
}

// holds fails unless the replica is these bytes.
func (f *fixture) holds(n store.Name, want []byte) {
	f.Helper()
	got, err := f.assemble(n)
	if err != nil {
		f.Fatalf("%s: %v", n, err)
	}
	if !bytes.Equal(got, want) {
		f.Fatalf("%s: %d bytes came back, which are not the %d that were kept", n, len(got), len(want))
	}
}

// weighs fails unless the store says of itself what is on the disk.
func (f *fixture) weighs() int64 {
	f.Helper()
	n := int64(0)
	err := filepath.Walk(f.cfg.Dir, func(_ string, at os.FileInfo, err error) error {
		if err == nil && at.Mode().IsRegular() {
			n += at.Size()
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	if got := f.Usage().Bytes; got != n {
		f.Errorf("the store says it has %d bytes, on the disk are %d", got, n)
	}
	return n
}

// packs are the pack files by name.
func (f *fixture) packs() []string {
	f.Helper()
	paths, err := filepath.Glob(filepath.Join(f.cfg.Dir, "packs", "*"))
	if err != nil {
		f.Fatal(err)
	}
	return paths
}

// manifestOf cuts a state without a store and gives its chunks.
func manifestOf(t testing.TB, state []byte) (replica.Manifest, [][]byte) {
	t.Helper()
	s, err := replica.Read(bytes.NewReader(state), int64(len(state)))
	if err != nil {
		t.Fatal(err)
	}
	var chunks [][]byte
	m, err := s.Cut(t.Context(), key, func(_ replica.Chunk, b []byte) error {
		chunks = append(chunks, bytes.Clone(b))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m, chunks
}

var discard = slog.New(slog.DiscardHandler)
