package gpu_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"viiwork/engine/gpu"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestWholeMachines lists the cards of each machine under testdata/hosts and compares them with hosts.golden.
func TestWholeMachines(t *testing.T) {
	dirs, err := filepath.Glob("testdata/hosts/*")
	if err != nil || len(dirs) != 8 {
		t.Fatalf("%d machines, %v", len(dirs), err)
	}
	var all strings.Builder
	for _, dir := range dirs {
		h := gpu.At(dir)
		cards, faults := h.List(t.Context())
		fmt.Fprintf(&all, "%s (%s, memory %s)\n%s\n\n", filepath.Base(dir), h.OS, show(h.Memory(t.Context())), tellAll(cards, faults))
	}
	const golden = "testdata/hosts.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if all.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", all.String(), want)
	}
}

// TestReadingsFollowTheirCard: a card is known again by what it is, when those before it have gone.
func TestReadingsFollowTheirCard(t *testing.T) {
	h := gpu.At("testdata/hosts/rtx3090x2")
	cards, _ := h.List(t.Context())
	gone := gpu.Card{Index: 2, Accel: cards[0].Accel, UUID: "GPU-gone", Name: "NVIDIA X"}
	moved := cards[1]
	moved.Index = 0
	read, faults := h.Read(t.Context(), []gpu.Card{moved, gone})
	if len(read) != 2 || read[0].Reading.Celsius == nil || *read[0].Reading.Celsius != 35 || read[1].Reading != (gpu.Reading{}) {
		t.Errorf("read %s", tellAll(read, nil))
	}
	if len(faults) != 1 || faults[0].ID != "vanished" {
		t.Errorf("the card that has gone is not told: %+v", faults)
	}
}
