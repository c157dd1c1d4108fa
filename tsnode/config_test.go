package tsnode_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"viiwork/tsnode"
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBadConfigIsRefusedWithTheKeyToChange(t *testing.T) {
	good := tsnode.Config{Network: tsnode.LAN, Name: "a", StateDir: t.TempDir()}
	for key, spoil := range map[string]func(*tsnode.Config){
		"mesh.network":   func(c *tsnode.Config) { c.Network = "wifi" },
		"node.name":      func(c *tsnode.Config) { c.Name = "" },
		"node.state_dir": func(c *tsnode.Config) { c.StateDir = "" },
		"api.host":       func(c *tsnode.Config) { c.Host = "attic.local" },
	} {
		cfg := good
		spoil(&cfg)
		n, err := tsnode.New(cfg)
		if err == nil {
			n.Close()
			t.Errorf("%s: accepted", key)
		} else if !strings.Contains(err.Error(), key) {
			t.Errorf("%s: the refusal does not name it: %v", key, err)
		}
	}
	n, err := tsnode.New(good) // a refusal must not keep the directory
	if err != nil {
		t.Fatal(err)
	}
	n.Close()
}
