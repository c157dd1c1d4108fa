package store_test

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"viiwork/appliance/kvshare/store"
)

// fill opens a store on a small disk of its own.
func fill(t *testing.T, size string) *fixture {
	t.Helper()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("no small disk to fill, which needs root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	f := open(t, 64*mib)
	f.cfg.Dir = filepath.Join(disk, "kv")
	f.Store = nil
	f.reopen()
	t.Cleanup(func() { f.Close() })
	return f
}

func TestAFullDiskLeavesAllElseIntact(t *testing.T) {
	f := fill(t, "8m")
	f.save("aa", state(1000, 1))
	other := filepath.Join(f.cfg.Dir, "..", "of-others")
	must(t, os.WriteFile(other, make([]byte, 5*mib), 0o600))
	if _, _, err := f.trySave("bb", state(3000, 2)); !errors.Is(err, store.ErrNoRoom) {
		t.Fatalf("6 MiB on a disk with 1 free: %v", err)
	}
	m, chunks := manifestOf(t, state(3000, 3))
	a, err := f.Begin("cc", m)
	if err != nil {
		t.Fatal(err)
	}
	var full error
	for i := 0; i < len(chunks) && full == nil; i++ {
		full = a.Put(i, chunks[i])
	}
	if !errors.Is(full, store.ErrNoRoom) {
		t.Errorf("6 MiB come to a disk with 1 free: %v", full)
	}
	a.Abort()
	must(t, os.Remove(other))
	f.weighs()
	f.save("bb", state(1000, 2))
	f.holds("bb", state(1000, 2))
}

// Others may fill the disk between a look at it and a write.
func TestAWriteThatMeetsAFullDiskIsTakenBack(t *testing.T) {
	f := open(t, 64*mib)
	f.save("aa", state(100, 1))
	before := f.weighs()
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var limit, none syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	none = limit
	none.Cur = mib
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &none))
	_, _, err := f.trySave("aa", state(9000, 1))
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	if !errors.Is(err, store.ErrNoRoom) {
		t.Fatalf("18 MiB where files end after one: %v", err)
	}
	if after := f.weighs(); after != before {
		t.Errorf("%d bytes before, %d after", before, after)
	}
	f.holds("aa", state(100, 1))
	f.save("aa", state(9000, 1))
	f.reopen()
	f.holds("aa", state(9000, 1))
}

func TestSomeOfTheDiskIsLeftFree(t *testing.T) {
	f := fill(t, "16m")
	f.cfg.KeepFree = 8 * mib
	f.reopen()
	for i := range uint64(6) {
		f.clock.add(time.Second)
		f.save(store.Name(fmt.Sprintf("a%d", i)), state(1000, i))
	}
	var at syscall.Statfs_t
	must(t, syscall.Statfs(f.cfg.Dir, &at))
	if free := int64(at.Bavail) * int64(at.Bsize); free < 8*mib-64<<10 {
		t.Errorf("%d bytes are free, want 8 MiB", free)
	}
	f.holds("a5", state(1000, 5))
	if _, _, err := f.trySave("bb", state(5000, 1)); !errors.Is(err, store.ErrNoRoom) {
		t.Errorf("10 MiB where 8 may be used: %v", err)
	}
}
