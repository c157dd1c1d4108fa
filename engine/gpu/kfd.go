package gpu

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// kfdNode is a card, or a part of one, as the compute driver knows it.
type kfdNode struct {
	dir        string
	number     int
	properties map[string]int64
	codename   string // "vega20"
	gpuID      int64  // the number its memory figures go by
}

// kfdNodes returns the nodes that are cards, in the order of their numbers. shut tells that there are nodes which do not
// let themselves be read: so they are in a container that was not given the device.
func (h Host) kfdNodes() (nodes []kfdNode, shut bool) {
	paths, _ := filepath.Glob(h.path("sys/class/kfd/kfd/topology/nodes/*/properties"))
	for _, path := range paths {
		dir := filepath.Dir(path)
		number, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		node := kfdNode{dir: dir, number: number, properties: readProperties(path), codename: cleanName(readLine(filepath.Join(dir, "name")))}
		if len(node.properties) == 0 {
			shut = true
			continue
		}
		if node.properties["simd_count"] <= 0 { // a processor
			continue
		}
		if id := readNumber(filepath.Join(dir, "gpu_id")); id != nil {
			node.gpuID = *id
		}
		nodes = append(nodes, node)
	}
	slices.SortFunc(nodes, func(a, b kfdNode) int { return a.number - b.number })
	return nodes[:min(len(nodes), cardsMax)], shut
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

// gfx turns the driver's number into the compiler's name: major·10000 + minor·100 + step, the step in hex, so 90010 is
// gfx90a. 0, and no number, as on kernels that do not tell, is "".
func (n kfdNode) gfx() string {
	version := n.properties["gfx_target_version"]
	if version <= 0 || version > 999999 {
		return ""
	}
	return fmt.Sprintf("gfx%d%d%x", version/10000, version/100%100, version%100)
}

// pci decodes the driver's location: bus in the high byte, then five bits of device and three of function. The topmost
// four of its 32 bits number the parts of a partitioned card.
func (n kfdNode) pci() string {
	domain, location := n.properties["domain"], n.properties["location_id"]
	if location <= 0 || location > 1<<32-1 || domain < 0 || domain > 1<<32-1 {
		return ""
	}
	location &= 1<<28 - 1
	if location == 0 || location > 0xffff {
		return ""
	}
	return fmt.Sprintf("%04x:%02x:%02x.%d", domain, location>>8, location>>3&0x1f, location&7)
}

// memory is what the compute driver itself says of the card's memory, 0 on many kernels: their card's own driver knows.
func (n kfdNode) memory() *int64 {
	if size := n.properties["local_mem_size"]; size > 0 && size <= memoryMax {
		return &size
	}
	var sum int64
	banks, _ := filepath.Glob(filepath.Join(n.dir, "mem_banks/*/properties"))
	for _, path := range banks[:min(len(banks), 16)] {
		bank := readProperties(path)
		size := bank["size_in_bytes"]
		if heap := bank["heap_type"]; (heap == 1 || heap == 2) && size > 0 && size <= memoryMax { // the card's, visible or not
			sum += size
		}
	}
	if sum == 0 {
		return nil
	}
	return &sum
}

// integrated knows the parts of processors by name: their 512 MiB of memory are the system's. Old kernels do not tell
// the name, but count the processor's cores in the same node.
func (n kfdNode) integrated() bool {
	gfx := n.gfx()
	return integrated(gfx) || gfx == "" && n.properties["cpu_cores_count"] > 0
}

func integrated(gfx string) bool {
	switch gfx {
	case "gfx902", "gfx909", "gfx90c", "gfx1013", "gfx1033", "gfx1034", "gfx1035", "gfx1036", "gfx1037", "gfx1103":
		return true
	}
	return false
}
