package docker_test

import (
	"testing"

	"viiwork/engine/docker"
)

// TestOnlyOurOwnContainersAreListedAndRemoved: running or not, and never those of another state directory.
func TestOnlyOurOwnContainersAreListedAndRemoved(t *testing.T) {
	w := newWorld(t)
	r := w.runner()
	w.start(r, w.spec("m#0"))
	other := docker.New(docker.Config{Node: w.node, StateDir: t.TempDir()})
	defer other.Close()
	if foreign, err := other.Ours(t.Context()); err != nil || len(foreign) > 0 {
		t.Errorf("another node's own: %v, %v", foreign, err)
	}
	ours, err := r.Ours(t.Context())
	if err != nil || len(ours) != 1 || ours[0].Image != testImage || ours[0].Name == "" {
		t.Fatalf("ours: %+v, %v", ours, err)
	}
	if err := other.Remove(t.Context(), ours[0]); err == nil {
		t.Error("another node removed it")
	}
	if left, _ := r.Ours(t.Context()); len(left) != 1 {
		t.Fatalf("left: %v", left)
	}
	for range 2 { // what is gone already is no fault
		if err := r.Remove(t.Context(), ours[0]); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := r.Ours(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
