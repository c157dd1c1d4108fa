package appliance_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// TestComposeKeepsWhatTheNodeCountsOn: the machine's network, its own paths, Docker's socket, and no rights.
func TestComposeKeepsWhatTheNodeCountsOn(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			NetworkMode string   `yaml:"network_mode"`
			User        string   `yaml:"user"`
			GroupAdd    []string `yaml:"group_add"`
			ReadOnly    bool     `yaml:"read_only"`
			CapDrop     []string `yaml:"cap_drop"`
			Volumes     []string `yaml:"volumes"`
			Privileged  bool     `yaml:"privileged"`
		} `yaml:"services"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	s, ok := file.Services["viiwork"]
	if !ok || len(file.Services) != 1 {
		t.Fatalf("services %v", file.Services)
	}
	if s.NetworkMode != "host" || s.User == "" || len(s.GroupAdd) != 1 || !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || s.Privileged {
		t.Errorf("%+v", s)
	}
	if !slices.Contains(s.Volumes, "./:/etc/viiwork:ro") {
		t.Errorf("an edit of viiwork.yaml is not seen, or more than seen, by %v", s.Volumes)
	}
	found := map[string]bool{}
	for _, volume := range s.Volumes {
		for _, key := range []string{"VIIWORK_STATE_DIR", "VIIWORK_MODELS_DIR", dockerSocket} {
			if !strings.Contains(volume, key) {
				continue
			}
			found[key] = true
			half := strings.TrimSuffix(volume, ":ro")
			if from, to := half[:len(half)/2], half[len(half)/2+1:]; from != to {
				t.Errorf("%s is not at the same path on both sides", volume)
			}
		}
	}
	if len(found) != 3 {
		t.Errorf("mounted: %v", found)
	}
}
