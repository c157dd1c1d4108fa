package gpu

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"viiwork/engine"
)

const fileLimit = 64 << 10 // bytes read of any file under /sys; the real ones are a few hundred

// kfdNode is a card as the compute driver knows it.
type kfdNode struct {
	number     int
	properties map[string]int64
	codename   string // "vega20"
	gpuID      int64  // the number its memory figures go by
}

// amd lists AMD cards. A card's host index is its rank among the nodes that are cards: node numbers count processors
// too, and ROCr counts in this order.
func (h Host) amd() ([]Card, []Fault) {
	var cards []Card
	for i, node := range h.kfdNodes() {
		pci := pciAddress(node.properties["domain"], node.properties["location_id"])
		gfx := gfxName(node.properties["gfx_target_version"])
		minor := int(node.properties["drm_render_minor"])
		cards = append(cards, Card{
			Index:       i,
			Accel:       engine.AccelROCm,
			Name:        amdName(node.codename, gfx),
			Memory:      h.amdMemory(node, pci),
			Gfx:         gfx,
			PCI:         pci,
			RenderMinor: minor,
			Integrated:  integrated(gfx),
		})
	}
	if len(cards) == 0 && h.hasAMDWithoutCompute() {
		return nil, []Fault{{
			Accel: engine.AccelROCm,
			Text:  "there is an AMD card, but the kernel offers no compute on it (/sys/class/kfd is empty)",
			Fix:   "load the amdgpu driver with KFD, or use image vulkan",
		}}
	}
	return cards, nil
}

// kfdNodes returns the nodes that are cards, in the order of their numbers.
func (h Host) kfdNodes() []kfdNode {
	paths, _ := filepath.Glob(h.path("sys/class/kfd/kfd/topology/nodes/*/properties"))
	var nodes []kfdNode
	for _, path := range paths {
		dir := filepath.Dir(path)
		number, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		node := kfdNode{number: number, properties: readProperties(path), codename: readLine(filepath.Join(dir, "name"))}
		if node.properties["simd_count"] == 0 { // a processor
			continue
		}
		node.gpuID, _ = strconv.ParseInt(readLine(filepath.Join(dir, "gpu_id")), 10, 64)
		nodes = append(nodes, node)
	}
	slices.SortFunc(nodes, func(a, b kfdNode) int { return a.number - b.number })
	return nodes
}

// amdMemory asks the card's own driver files; the compute node's figure is 0 on many kernels that know better there.
func (h Host) amdMemory(node kfdNode, pci string) *int64 {
	devices := []string{h.path("sys/class/drm", fmt.Sprintf("renderD%d", node.properties["drm_render_minor"]), "device")}
	cards, _ := filepath.Glob(h.path("sys/class/drm/card[0-9]*/device"))
	for _, device := range cards {
		if pci != "" && strings.Contains(readText(filepath.Join(device, "uevent")), "PCI_SLOT_NAME="+pci) {
			devices = append(devices, device)
		}
	}
	for _, device := range devices {
		if size, err := strconv.ParseInt(readLine(filepath.Join(device, "mem_info_vram_total")), 10, 64); err == nil && size > 0 {
			return &size
		}
	}
	if size := node.properties["local_mem_size"]; size > 0 {
		return &size
	}
	return nil
}

func (h Host) hasAMDWithoutCompute() bool {
	vendors, _ := filepath.Glob(h.path("sys/class/drm/card[0-9]*/device/vendor"))
	return slices.ContainsFunc(vendors, func(path string) bool { return readLine(path) == "0x1002" })
}

// gfxName turns the driver's number into the compiler's name: major·10000 + minor·100 + step, the step in hex, so
// 90010 is gfx90a. 0, as on kernels that do not tell, is "".
func gfxName(version int64) string {
	if version <= 0 {
		return ""
	}
	return fmt.Sprintf("gfx%d%d%x", version/10000, version/100%100, version%100)
}

// integrated knows the parts of processors by name: their 512 MiB of memory are the system's.
func integrated(gfx string) bool {
	switch gfx {
	case "gfx902", "gfx909", "gfx90c", "gfx1013", "gfx1033", "gfx1034", "gfx1035", "gfx1036", "gfx1037", "gfx1103":
		return true
	}
	return false
}

func amdName(codename, gfx string) string {
	name := strings.TrimSpace("AMD " + codename)
	if gfx != "" {
		name += " (" + gfx + ")"
	}
	return name
}

// pciAddress decodes the driver's location: bus in the high byte, then five bits of device and three of function.
func pciAddress(domain, location int64) string {
	if location <= 0 || location > 0xffff || domain < 0 {
		return ""
	}
	return fmt.Sprintf("%04x:%02x:%02x.%d", domain, location>>8, location>>3&0x1f, location&7)
}

// readProperties reads lines of a name and a number; others are left out.
func readProperties(path string) map[string]int64 {
	properties := map[string]int64{}
	for line := range strings.Lines(readText(path)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			properties[name] = n
		}
	}
	return properties
}

func readLine(path string) string {
	line, _, _ := strings.Cut(readText(path), "\n")
	return strings.TrimSpace(line)
}

// readText returns "" for what cannot be read: absent and unreadable are both unknown.
func readText(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, fileLimit))
	if err != nil {
		return ""
	}
	return string(text)
}
