package gpu

import (
	"context"
	"path/filepath"
	"runtime"
	"slices"

	"viiwork/engine"
)

// Host is the machine to look at.
type Host struct {
	Root string // "/", or a folder that stands for it
	OS   string // "linux", "darwin"; "" = this one's
	Run  Run
}

// At is the machine under root: its files there, its programs in root's usr/bin. "/" is this machine. A Mac is told by
// the file in which macOS keeps its version.
func At(root string) Host {
	h := Host{Root: root, OS: runtime.GOOS, Run: RunUnder(root)}
	if filepath.Clean(root) != "/" {
		h.OS = "linux"
		if readText(h.path("System/Library/CoreServices/SystemVersion.plist")) != "" {
			h.OS = "darwin"
		}
	}
	return h
}

// List returns the cards of the machine and what is wrong with them: AMD first, each family by its index.
func (h Host) List(ctx context.Context) ([]Card, []Fault) {
	if h.mac() {
		return h.metal(ctx)
	}
	cards, faults := h.amd(ctx)
	more, moreFaults := h.nvidia(ctx)
	return append(cards, more...), append(faults, moreFaults...)
}

// Read returns the given cards with new readings, and what is wrong. A card that is there no more has none, and is told.
// Macs tell none to programs without rights.
func (h Host) Read(ctx context.Context, cards []Card) ([]Card, []Fault) {
	has := func(accel engine.Accel) bool {
		return slices.ContainsFunc(cards, func(c Card) bool { return c.Accel == accel })
	}
	var seen []Card
	var faults []Fault
	if has(engine.AccelROCm) {
		found, wrong := h.amd(ctx)
		seen, faults = append(seen, found...), append(faults, wrong...)
	}
	if has(engine.AccelCUDA) {
		found, wrong := h.nvidia(ctx)
		seen, faults = append(seen, found...), append(faults, wrong...)
	}
	read := slices.Clone(cards)
	for i := range read {
		c := &read[i]
		c.Reading = Reading{}
		at := slices.IndexFunc(seen, func(s Card) bool { return same(*c, s) })
		switch {
		case at >= 0:
			c.Reading = seen[at].Reading
		case c.Accel != engine.AccelMetal && !slices.ContainsFunc(faults, func(f Fault) bool { return !f.Minor }): // else the fault says more
			faults = append(faults, vanished(*c))
		}
	}
	return read, faults
}

// same knows a card again. Indices shift when one before it falls out, and in a container.
func same(a, b Card) bool {
	switch {
	case a.Accel != b.Accel:
		return false
	case a.UUID != "" && b.UUID != "":
		return a.UUID == b.UUID
	case a.PCI != "" && b.PCI != "":
		return a.PCI == b.PCI && a.RenderMinor == b.RenderMinor // parts of one card share its address
	}
	return a.Index == b.Index
}

// Memory is the machine's own memory in bytes, nil = unknown.
func (h Host) Memory(ctx context.Context) *int64 {
	if h.mac() {
		return h.sysctl(ctx, "hw.memsize")
	}
	return memField(readText(h.path("proc/meminfo")), "MemTotal:")
}

// Available is how many bytes of its memory programs can have now without others being pushed out; nil = unknown, as on
// Macs.
func (h Host) Available(context.Context) *int64 {
	if h.mac() {
		return nil
	}
	return memField(readText(h.path("proc/meminfo")), "MemAvailable:")
}

func (h Host) mac() bool {
	return h.OS == "darwin" || h.OS == "" && runtime.GOOS == "darwin"
}

func (h Host) path(elements ...string) string {
	return filepath.Join(append([]string{h.Root}, elements...)...)
}
