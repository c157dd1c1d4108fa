package setup_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"viiwork/appliance/setup"
)

func TestFullDiskLeavesNothingHalfDone(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no small disk can be had here: %v", err)
	}
	defer unix.Unmount(root, unix.MNT_DETACH)
	before := tree(t, root)
	p := node(t, root, nil)
	big := filepath.Join(t.TempDir(), "viiwork")
	if err := os.WriteFile(big, make([]byte, 1<<20), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range p.Files {
		if p.Files[i].From != "" {
			p.Files[i].From = big
		}
	}
	if err := setup.Apply(t.Context(), p, never(t)); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("got %v", err)
	}
	differ(t, tree(t, root), before)
}
