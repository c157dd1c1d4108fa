package mesh_test

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"viiwork/appliance/mesh"
)

// TestAPipeInPlaceOfAFileKeepsNoNodeFromStarting: who opens one to read waits for its other end.
func TestAPipeInPlaceOfAFileKeepsNoNodeFromStarting(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"meshlock.json", "aliases.json", "session-key", "secret"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ring := keys(t, mesh.KeyConfig{Secret: secret})
	started := make(chan struct{})
	go func() {
		defer close(started)
		mesh.NewLock(mesh.LockConfig{ID: "n01", Name: "node1", Dir: dir, Keys: ring, Members: func() (a, f, l []mesh.Member) { return }})
		mesh.NewAliases(mesh.AliasesConfig{Dir: dir})
		mesh.NewSessionKey(mesh.SessionKeyConfig{StateDir: dir, Keys: ring}).Load()
		mesh.ReadSecret(mesh.SecretConfig{StateDir: dir})
	}()
	select {
	case <-started:
	case <-time.After(time.Minute):
		t.Fatal("it waits")
	}
}
