package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"viiwork/appliance/config"
)

func TestSecretIsFoundBesideTheConfiguration(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "viiwork.yaml")
	environ, err := config.Beside(path, []string{"A=1"})
	if err != nil || !slices.Equal(environ, []string{"A=1"}) {
		t.Fatalf("without such a file: %v, %v", environ, err)
	}
	beside := filepath.Join(dir, config.BesideName)
	text := "# secrets\n\nVIIWORK_MESH_SECRET=\"" + strings.Repeat("A", 43) + "=\"\n; also a remark\nVIIWORK_LOG_LEVEL=debug\r\nTS_AUTHKEY='a=b'\n"
	if err := os.WriteFile(beside, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if environ, err = config.Beside(path, []string{"VIIWORK_LOG_LEVEL="}); err != nil {
		t.Fatal(err)
	}
	want := []string{"VIIWORK_MESH_SECRET=" + strings.Repeat("A", 43) + "=", "TS_AUTHKEY=a=b", "VIIWORK_LOG_LEVEL="}
	if !slices.Equal(environ, want) {
		t.Errorf("got %q, want %q", environ, want)
	}
	if cfg, err := config.Parse(path, nil, environ[:1]); err != nil || len(cfg.Mesh.Secret) != 32 {
		t.Errorf("the secret was not taken: %v", err)
	}
	// The owner's own way of saying it beats the file's, or the two would contradict each other.
	environ, err = config.Beside(path, []string{"VIIWORK_MESH_SECRET_FILE=/x"})
	if err != nil || slices.ContainsFunc(environ, func(e string) bool { return strings.HasPrefix(e, "VIIWORK_MESH_SECRET=") }) {
		t.Errorf("got %q, %v", environ, err)
	}
}

func TestBrokenVariablesAreNamedWithoutTheirValue(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, config.BesideName), []byte("A=1\nvery-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := config.Beside(filepath.Join(dir, "viiwork.yaml"), nil)
	if err == nil || !strings.Contains(err.Error(), config.BesideName+":2: ") || strings.Contains(err.Error(), "very-secret") {
		t.Errorf("got %v", err)
	}
}
