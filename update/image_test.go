package update_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"viiwork/update"
)

// verified finds a version in the registry as an update does.
func (w *world) verified(version string) *update.Verified {
	w.t.Helper()
	found, _, err := w.updater("v1.0.0", nil).Find(w.t.Context(), version, false)
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// TestImageIsWrittenAsDockerLoadsIt, the list of what is in it last, and its parts as they were proved.
func TestImageIsWrittenAsDockerLoadsIt(t *testing.T) {
	w := newWorld(t)
	w.publish("v1.1.0")
	var archive bytes.Buffer
	image, err := w.verified("v1.1.0").Image(t.Context(), "linux/amd64", "viiwork-node:v1.1.0", &archive)
	if err != nil {
		t.Fatal(err)
	}
	files, names := map[string][]byte{}, []string{}
	for all := tar.NewReader(&archive); ; {
		h, err := all.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name], err = io.ReadAll(all)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
	if len(names) != 3 || names[2] != "manifest.json" {
		t.Fatalf("files %v", names)
	}
	var list []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &list); err != nil || len(list) != 1 || len(list[0].Layers) != 1 || list[0].RepoTags[0] != "viiwork-node:v1.1.0" {
		t.Fatalf("%s: %v", files["manifest.json"], err)
	}
	if got := "sha256:" + sum(string(files[list[0].Config])); got != image.Config {
		t.Errorf("the configuration is %s, told was %s", got, image.Config)
	}
	if !strings.Contains(string(files[list[0].Config]), image.Content[0]) || len(files[list[0].Layers[0]]) == 0 {
		t.Errorf("content %v", image.Content)
	}
}

// TestImageWithAnotherLayerIsNone: the archive has no list, so that Docker takes nothing from it.
func TestImageWithAnotherLayerIsNone(t *testing.T) {
	w := newWorld(t)
	w.publish("v1.1.0")
	found := w.verified("v1.1.0")
	w.swapLayers("something else")
	var archive bytes.Buffer
	if _, err := found.Image(t.Context(), "linux/amd64", "viiwork-node:v1.1.0", &archive); err == nil {
		t.Error("it was taken")
	}
	if bytes.Contains(archive.Bytes(), []byte("manifest.json")) {
		t.Error("the archive is whole")
	}
	w.reg.Swap.Store(nil)
	for _, platform := range []string{"darwin/arm64", "linux/s390x"} {
		if _, err := found.Image(t.Context(), platform, "x:y", io.Discard); err == nil {
			t.Errorf("an image for %s", platform)
		}
	}
}
