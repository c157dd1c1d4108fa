package install_test

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestFullDiskLeavesNothing(t *testing.T) {
	w := newWorld(t)
	small := t.TempDir()
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=512k"); err != nil {
		t.Skipf("no small disk can be made here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) })
	w.versions = filepath.Join(small, "versions")
	w.put(oldVersion, script(oldVersion, "good"))
	w.link("current", oldVersion)
	w.link("previous", oldVersion)
	large := script(newVersion, "good") + "exit\n#" + strings.Repeat("x", 2<<20) + "\n"
	err := w.open().Install(t.Context(), w.release(newVersion, large), w.order())
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "make room on the disk") {
		t.Fatalf("got %v", err)
	}
	w.wantNothingLeft()
	w.wantWorks(oldVersion)
	if err := w.open().Install(t.Context(), w.release(newVersion, script(newVersion, "good")), w.order()); err != nil {
		t.Fatalf("a smaller one: %v", err)
	}
}
