package setup_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestAStateDirectoryThatCannotGoIsEmptied: it is a mount in a node's container, and its place may be root's.
func TestAStateDirectoryThatCannotGoIsEmptied(t *testing.T) {
	root, u := installed(t, new([]string))
	state := filepath.Join(root, "var/lib/viiwork")
	if os.Getuid() != 0 {
		above := filepath.Dir(state)
		if err := os.Chmod(above, 0o555); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(above, 0o755) })
	} else {
		if err := syscall.Mount(state, state, "", syscall.MS_BIND, ""); err != nil {
			t.Skipf("nothing can be mounted here: %v", err)
		}
		t.Cleanup(func() { syscall.Unmount(state, 0) })
	}
	var failed []string
	err := u.Survey(t.Context()).Remove(t.Context(), func(what string, err error) {
		if err != nil {
			failed = append(failed, what)
		}
	})
	if err != nil || len(failed) != 0 {
		t.Errorf("failed %v, %v", failed, err)
	}
	if left, err := os.ReadDir(state); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
