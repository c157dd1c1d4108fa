package modelcopy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAFullDiskKeepsWhatCame: where the disk fills up on the way, the copy says so and goes on later. It needs to mount a small disk.
func TestAFullDiskKeepsWhatCame(t *testing.T) {
	const size = 3 * pieceBytes
	g := newGiver(t, map[string]int{"sub/m.gguf": size}, one)
	a := newAsker(t, g)
	if err := unix.Mount("tmpfs", a.dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(a.dir, unix.MNT_DETACH) })
	ballast := filepath.Join(a.dir, "ballast")
	write(t, ballast, make([]byte, 2*pieceBytes))
	_, err := a.pull(t.Context())
	if err == nil || !strings.Contains(err.Error(), "make room, and run the same command again") {
		t.Fatal(err)
	}
	a.holds("ballast", "m.gguf.part", "m.gguf.part.json")
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	before := g.asked.Load()
	if _, err := a.pull(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.has("m.gguf", content("sub/m.gguf", size))
	if again := g.asked.Load() - before; again > 2 {
		t.Errorf("%d pieces were asked for again", again)
	}
}
