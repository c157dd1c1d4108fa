package serf_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"viiwork/serf"
)

// TestRememberedAreThoseWhoWereAliveLast, whatever else the file says.
func TestRememberedAreThoseWhoWereAliveLast(t *testing.T) {
	dir := t.TempDir()
	if got := serf.Remembered(dir); len(got) != 0 {
		t.Errorf("of no file: %v", got)
	}
	text := "alive: a 10.0.0.1:7946\nclock: 1\nalive: b 10.0.0.2:7946\nnot-alive: b\nalive: c nowhere\nalive: d\nalive:\n\x00\n" +
		"alive: a 10.0.0.4:7946\nalive: e 10.0.0.5:7946\nleave\nalive: f [fd7a::1]:7946\nalive: g 10.0.0.5:7947\n"
	if err := os.Mkdir(filepath.Join(dir, "serf"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "serf", "members"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(serf.Remembered(dir)); got != "[10.0.0.4 10.0.0.5 fd7a::1]" {
		t.Errorf("got %s", got)
	}
}
