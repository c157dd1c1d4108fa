package setup_test

import (
	"os"
	"path/filepath"
	"strings"
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

// TestWhatIsMountedInTheStateDirectoryIsNotEmptied: a folder of the same disk, which has its files elsewhere.
func TestWhatIsMountedInTheStateDirectoryIsNotEmptied(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root mounts")
	}
	root, u := installed(t, new([]string))
	photos := t.TempDir()
	photo := filepath.Join(photos, "a.jpg")
	if err := os.WriteFile(photo, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(root, "var/lib/viiwork/kv/my photos")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount(photos, at, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("nothing can be mounted here: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(at, syscall.MNT_DETACH) })
	leave := u.Survey(t.Context())
	if stays := strings.Join(leave.Stays, "\n"); !strings.Contains(stays, "/var/lib/viiwork/kv/my photos is mounted in it") {
		t.Errorf("stays:\n%s", stays)
	}
	_ = leave.Remove(t.Context(), func(string, error) {})
	if text, err := os.ReadFile(photo); err != nil || string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
	if err := syscall.Unmount(at, 0); err != nil {
		t.Fatal(err)
	}
	_ = u.Survey(t.Context()).Remove(t.Context(), func(string, error) {})
	if _, err := os.Lstat(filepath.Join(root, "var/lib/viiwork")); err == nil {
		t.Error("it stays when nothing is mounted there")
	}
}
