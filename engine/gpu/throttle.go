package gpu

import (
	"encoding/binary"
	"math"
	"path/filepath"
	"strconv"
	"strings"
)

// Throttle is why a card runs slower than it could, at this moment. The zero value says that nothing holds it back.
type Throttle struct {
	Heat  bool // a temperature limit of the card, its memory or its regulators
	Power bool // a limit of power or current, or the power brake
}

// Bits of nvidia-smi's clocks_event_reasons.active, as nvml.h gives them. The card's own slowdown says its cause in a bit
// beside it where that is heat.
const (
	nvPowerCap = 1 << 2
	nvSlowdown = 1 << 3
	nvSoftHeat = 1 << 5
	nvHardHeat = 1 << 6
	nvBrake    = 1 << 7
)

// nvReasons reads such a figure, 0x0000000000000004; whatever is none is unknown.
func nvReasons(field string) *Throttle {
	digits, found := strings.CutPrefix(field, "0x")
	bits, err := strconv.ParseUint(digits, 16, 64)
	if !found || err != nil {
		return nil
	}
	heat := bits&(nvSoftHeat|nvHardHeat) != 0
	return &Throttle{Heat: heat, Power: bits&(nvPowerCap|nvBrake) != 0 || bits&nvSlowdown != 0 && !heat}
}

// A table of amdgpu's gpu_metrics begins with its size and the version of its layout (kgd_pp_interface.h in the kernel).
// All are little-endian, with the gaps that C leaves.
const (
	metricsV10     = 1 << 8 // 1.0: what a Radeon VII and an MI50 have
	metricsV13     = 1<<8 | 3
	metricsV10Size = 80
	metricsV13Size = 120
	metricsV10At   = 68  // bits as the chip has them
	metricsV13At   = 112 // bits that are the same for all chips
)

// Bits of gfx906 (smu11_driver_if.h): temperatures of the edge, the hotspot, the memory, regulators, liquid, the switch and
// the skin; then currents and power.
const (
	vega20Heat  = 1<<11 - 1<<1
	vega20Power = 1<<14 - 1<<11
)

// Bits that are the same for all chips (amdgpu_smu.h): a byte and more for power, one for currents, two for temperatures.
const (
	smuPower = 1<<24 - 1
	smuHeat  = 1<<48 - 1<<32
)

// throttle reads the driver's table, as far as its layout is known: other tables count since when the card was slow, or say
// it in bits of their own.
func (c drmCard) throttle(gfx string) *Throttle {
	table := []byte(readText(filepath.Join(c.device, "gpu_metrics")))
	if len(table) < 4 {
		return nil
	}
	size, version := int(binary.LittleEndian.Uint16(table)), int(table[2])<<8|int(table[3])
	switch {
	case size != len(table):
		return nil
	case version == metricsV13 && size == metricsV13Size:
		return throttled(binary.LittleEndian.Uint64(table[metricsV13At:]), math.MaxUint64, smuHeat, smuPower)
	case version == metricsV10 && size == metricsV10Size && gfx == "gfx906":
		return throttled(uint64(binary.LittleEndian.Uint32(table[metricsV10At:])), math.MaxUint32, vega20Heat, vega20Power)
	}
	return nil
}

// throttled: all bits set is what the driver leaves where the chip tells nothing.
func throttled(bits, untold, heat, power uint64) *Throttle {
	if bits == untold {
		return nil
	}
	return &Throttle{Heat: bits&heat != 0, Power: bits&power != 0}
}
