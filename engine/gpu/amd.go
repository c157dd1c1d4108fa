package gpu

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"viiwork/engine"
)

// amd lists AMD cards. A card's host index is its rank among the nodes that are cards: node numbers count processors
// too, and ROCr counts in this order.
func (h Host) amd(ctx context.Context) ([]Card, []Fault) {
	nodes, shut := h.kfdNodes()
	graphics := h.drmCards(vendorAMD)
	parts := map[string]int{}
	for _, node := range nodes {
		if pci := node.pci(); pci != "" {
			parts[pci]++
		}
	}
	var cards []Card
	for i, node := range nodes {
		cards = append(cards, amdCard(i, node, graphics, parts[node.pci()] > 1))
	}
	faults := partitionFaults(nodes, graphics, parts)
	switch {
	case len(cards) > 0:
		return cards, append(faults, unknownToCompute(nodes, graphics)...)
	case shut:
		return nil, []Fault{computeFault("compute_shut", "", "the kernel shows its AMD cards to the owners of /dev/kfd only",
			"give this container /dev/kfd and /dev/dri, and the groups that own them")}
	case len(graphics) > 0:
		return nil, []Fault{computeFault("no_compute", "", "there is an AMD card, but the kernel offers no compute on it (/sys/class/kfd is empty)",
			"load the amdgpu driver with KFD, or use image vulkan")}
	}
	return h.rocmSMI(ctx)
}

func computeFault(id, pci, text, fix string) Fault {
	return Fault{ID: id, Accel: engine.AccelROCm, PCI: pci, Text: text, Fix: fix}
}

// amdCard joins what the kernel's two sides know. Of a part of a card only the compute side knows the share of memory,
// and nobody the load.
func amdCard(index int, node kfdNode, graphics []drmCard, part bool) Card {
	gfx := node.gfx()
	card := Card{
		Index:       index,
		Accel:       engine.AccelROCm,
		Name:        amdName(node.codename, gfx),
		Gfx:         gfx,
		PCI:         node.pci(),
		RenderMinor: renderMinor(node),
		Integrated:  node.integrated(),
	}
	own, found := cardOf(node, graphics)
	if found && !part {
		card.Memory, card.Reading, card.Display = own.memory(), own.reading(), own.display()
		card.Reading.Throttle = own.throttle(gfx)
	}
	if card.Memory == nil {
		card.Memory = node.memory()
	}
	return card
}

func renderMinor(node kfdNode) int {
	minor := node.properties["drm_render_minor"]
	if minor < 0 || minor > 1<<20 {
		return 0
	}
	return int(minor)
}

func amdName(codename, gfx string) string {
	name := strings.TrimSpace("AMD " + codename)
	if gfx != "" {
		name += " (" + gfx + ")"
	}
	return name
}

// partitionFaults names cards that are cut into parts: each part is a card of its own to HIP, which is good for many
// small models and bad for a large one.
func partitionFaults(nodes []kfdNode, graphics []drmCard, parts map[string]int) []Fault {
	var faults []Fault
	for _, node := range nodes {
		pci := node.pci()
		if parts[pci] < 2 {
			continue
		}
		text := fmt.Sprintf("AMD card %s is cut into %d compute partitions", pci, parts[pci])
		if own, found := cardOf(node, graphics); found {
			if mode := cleanName(readLine(filepath.Join(own.device, "current_compute_partition"))); mode != "" {
				text += " (" + mode + ")"
			}
		}
		parts[pci] = 0 // told once
		f := computeFault("partitions", pci, text+": each is listed as a card of its own, with its share of the memory",
			"leave it so for several small models; for large ones 'amd-smi set --compute-partition SPX' makes it whole again")
		f.Minor = true
		faults = append(faults, f)
	}
	return faults
}

const sizeable = 2 << 30 // bytes of memory above which a card is no processor's own

// unknownToCompute names cards that have a driver, but no compute, beside others that have. Small ones are parts of
// processors that the compute driver never knew. Where a node cannot be joined to its card, no card is accused.
func unknownToCompute(nodes []kfdNode, graphics []drmCard) []Fault {
	joined := map[int]bool{}
	for _, node := range nodes {
		own, found := cardOf(node, graphics)
		if !found {
			return nil
		}
		joined[own.number] = true
	}
	var faults []Fault
	for _, c := range graphics {
		if size := c.memory(); !joined[c.number] && c.pci != "" && size != nil && *size > sizeable {
			faults = append(faults, computeFault("no_compute", c.pci, "the kernel offers no compute on AMD card "+c.pci,
				"see what 'dmesg' says of kfd, or use image vulkan"))
		}
	}
	return faults
}
