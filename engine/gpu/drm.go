package gpu

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	vendorAMD    = "0x1002"
	vendorNVIDIA = "0x10de"
)

// drmCard is a card as the graphics side of the kernel knows it. Its number is neither the compute driver's nor HIP's,
// and need not start at 0.
type drmCard struct {
	number int
	device string // folder of the device's own files
	pci    string
	minors []int // of its render nodes
}

// drmCards returns the cards of one vendor, in the order of their numbers.
func (h Host) drmCards(vendor string) []drmCard {
	dirs, _ := filepath.Glob(h.path("sys/class/drm/card[0-9]*"))
	var cards []drmCard
	for _, dir := range dirs {
		number, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "card"))
		if err != nil { // card1-DP-1 is a socket of card1
			continue
		}
		card := drmCard{number: number, device: filepath.Join(dir, "device")}
		if readLine(filepath.Join(card.device, "vendor")) != vendor {
			continue
		}
		for line := range strings.Lines(readText(filepath.Join(card.device, "uevent"))) {
			if slot, found := strings.CutPrefix(line, "PCI_SLOT_NAME="); found {
				card.pci = known(strings.TrimSpace(slot))
			}
		}
		nodes, _ := filepath.Glob(filepath.Join(card.device, "drm/renderD*"))
		for _, node := range nodes {
			if minor, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(node), "renderD")); err == nil {
				card.minors = append(card.minors, minor)
			}
		}
		cards = append(cards, card)
	}
	slices.SortFunc(cards, func(a, b drmCard) int { return a.number - b.number })
	return cards[:min(len(cards), cardsMax)]
}

// cardOf joins the two views of a card: by address, else by render node.
func cardOf(node kfdNode, cards []drmCard) (drmCard, bool) {
	pci, minor := node.pci(), int(node.properties["drm_render_minor"])
	i := slices.IndexFunc(cards, func(c drmCard) bool { return pci != "" && c.pci == pci })
	if i < 0 {
		i = slices.IndexFunc(cards, func(c drmCard) bool { return minor > 0 && slices.Contains(c.minors, minor) })
	}
	if i < 0 {
		return drmCard{}, false
	}
	return cards[i], true
}

func (c drmCard) memory() *int64 {
	size := readNumber(filepath.Join(c.device, "mem_info_vram_total"))
	if size == nil || *size <= 0 || *size > memoryMax {
		return nil
	}
	return size
}

// reading: temperatures come in thousandths of a degree, power in millionths of a watt. Newer kernels tell the power of
// this moment, older ones a mean.
func (c drmCard) reading() Reading {
	r := Reading{Used: readNumber(filepath.Join(c.device, "mem_info_vram_used"))}
	if r.Used != nil && (*r.Used < 0 || *r.Used > memoryMax) {
		r.Used = nil
	}
	r.Busy = readScaled(filepath.Join(c.device, "gpu_busy_percent"), 1, fraction)
	sensors, _ := filepath.Glob(filepath.Join(c.device, "hwmon/hwmon*"))
	for _, dir := range sensors[:min(len(sensors), 4)] {
		r.Celsius = either(r.Celsius, readScaled(filepath.Join(dir, edgeSensor(dir)), 1e3, celsius))
		for _, file := range []string{"power1_average", "power1_input"} {
			r.Watts = either(r.Watts, readScaled(filepath.Join(dir, file), 1e6, watts))
		}
		r.CapWatts = either(r.CapWatts, readScaled(filepath.Join(dir, "power1_cap"), 1e6, watts))
	}
	return r
}

// edgeSensor is the one that all cards have; junction and memory, which some add, run hotter.
func edgeSensor(dir string) string {
	for _, name := range []string{"temp1", "temp2", "temp3"} {
		if readLine(filepath.Join(dir, name+"_label")) == "edge" {
			return name + "_input"
		}
	}
	return "temp1_input"
}

func either(a, b *float64) *float64 {
	if a != nil {
		return a
	}
	return b
}

// display tells whether a screen is attached to the card.
func (c drmCard) display() bool {
	sockets, _ := filepath.Glob(filepath.Join(filepath.Dir(c.device)+"-*", "status"))
	return slices.ContainsFunc(sockets, func(path string) bool { return readLine(path) == "connected" })
}
