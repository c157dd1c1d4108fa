package gpu_test

import (
	"context"
	"encoding/binary"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"viiwork/engine/gpu"
)

// metrics is a table as amdgpu writes it, with bits at a place, and all else as the driver leaves what it does not know.
func metrics(version uint16, size, at int, bits []byte) string {
	table := []byte(strings.Repeat("\xff", size))
	binary.LittleEndian.PutUint16(table, uint16(size))
	binary.BigEndian.PutUint16(table[2:], version)
	copy(table[at:], bits)
	return string(table)
}

// TestWhatSlowsACardDown, as far as the table's layout is known: what is not must stay unknown, and not become a false alarm.
func TestWhatSlowsACardDown(t *testing.T) {
	wide := func(bits uint64) []byte { return binary.LittleEndian.AppendUint64(nil, bits) }
	v10 := func(bits uint64) string { return metrics(0x100, 80, 68, wide(bits)[:4]) }
	v13 := func(bits uint64) string { return metrics(0x103, 120, 112, wide(bits)) }
	for name, c := range map[string]struct {
		gfx, table, want string // gfx as the kernel numbers it
	}{
		"Radeon VII, nothing":      {"90006", v10(0), "not throttled"},
		"Radeon VII, hotspot":      {"90006", v10(1 << 2), "heat true, power false"},
		"Radeon VII, memory":       {"90006", v10(1 << 3), "heat true, power false"},
		"Radeon VII, skin":         {"90006", v10(1 << 10), "heat true, power false"},
		"Radeon VII, current":      {"90006", v10(1 << 11), "heat false, power true"},
		"Radeon VII, power":        {"90006", v10(1 << 13), "heat false, power true"},
		"Radeon VII, all":          {"90006", v10(1<<2 | 1<<13), "heat true, power true"},
		"Radeon VII, padding":      {"90006", v10(1<<0 | 1<<14), "not throttled"},
		"Radeon VII, untold":       {"90006", v10(1<<32 - 1), ""},
		"another chip, own bits":   {"100100", v10(1 << 2), ""},
		"newer, nothing":           {"110000", v13(0), "not throttled"},
		"newer, hotspot":           {"110000", v13(1 << 36), "heat true, power false"},
		"newer, hot regulator":     {"110000", v13(1 << 45), "heat true, power false"},
		"newer, power":             {"110000", v13(1 << 0), "heat false, power true"},
		"newer, current":           {"110000", v13(1 << 22), "heat false, power true"},
		"newer, another reason":    {"110000", v13(1 << 57), "not throttled"},
		"newer, untold":            {"110000", v13(1<<64 - 1), ""},
		"a layout to come":         {"90402", metrics(0x104, 120, 112, wide(1<<36)), ""},
		"a processor's":            {"90012", metrics(0x202, 120, 112, wide(1<<36)), ""},
		"cut off":                  {"110000", v13(1 << 36)[:119], ""},
		"too long":                 {"110000", v13(1<<36) + "x", ""},
		"a size that is not so":    {"110000", metrics(0x103, 80, 68, wide(1)[:4]), ""},
		"a head alone":             {"110000", "\x04\x00\x01", ""},
		"empty, as after a sleep":  {"110000", "", ""},
		"an error in place of all": {"110000", "Operation not supported\n", ""},
	} {
		root := t.TempDir()
		plant(t, root, map[string]string{
			nodes + "1/properties":                   "simd_count 240\ngfx_target_version " + c.gfx + "\nlocation_id 768\ndomain 0\ndrm_render_minor 128\n",
			nodes + "1/name":                         "card",
			nodes + "1/gpu_id":                       "1",
			"sys/class/drm/card1/device/vendor":      "0x1002",
			"sys/class/drm/card1/device/uevent":      "PCI_SLOT_NAME=0000:03:00.0\n",
			"sys/class/drm/card1/device/gpu_metrics": c.table,
		})
		cards, faults := gpu.Host{Root: root, OS: "linux", Run: none}.List(t.Context())
		if len(cards) != 1 {
			t.Fatalf("%s: %s", name, tellAll(cards, faults))
		}
		if got := slowdown(tell(cards[0])); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

// slowdown is the end of what tell says.
func slowdown(told string) string {
	if strings.HasSuffix(told, "not throttled") {
		return "not throttled"
	}
	_, reasons, _ := strings.Cut(told, " throttled: ")
	return reasons
}

// TestNvidiaTellsWhatSlowsACardDown by either name of the column, and older tools, which have neither, cost nothing else.
func TestNvidiaTellsWhatSlowsACardDown(t *testing.T) {
	const row = "0, NVIDIA X, GPU-1, 24576, 00000000:01:00.0, 1187, 3, 48, 38.52, 350.00, Enabled, [N/A]"
	for _, c := range []struct{ column, figure, want string }{
		{"clocks_event_reasons.active", "0x0000000000000000", "not throttled"},
		{"clocks_event_reasons.active", "0x0000000000000001", "not throttled"}, // idle
		{"clocks_event_reasons.active", "0x0000000000000004", "heat false, power true"},
		{"clocks_throttle_reasons.active", "0x0000000000000020", "heat true, power false"},
		{"clocks_throttle_reasons.active", "0x0000000000000048", "heat true, power false"},
		{"clocks_throttle_reasons.active", "0x0000000000000088", "heat false, power true"},
		{"clocks_throttle_reasons.active", "0x0000000000000008", "heat false, power true"},
		{"clocks_event_reasons.active", "[N/A]", ""},
		{"clocks_event_reasons.active", "Not Active", ""},
		{"clocks_event_reasons.active", "0x", ""},
		{"clocks_event_reasons.active", "0x10000000000000000", ""},
		{"neither", "", ""},
	} {
		run := func(_ context.Context, name string, args ...string) ([]byte, error) {
			switch {
			case name != "nvidia-smi":
				return nil, exec.ErrNotFound
			case args[0] == "-L":
				return nil, nil
			case strings.HasSuffix(strings.TrimPrefix(args[0], "--query-gpu="), c.column):
				return []byte(row + ", " + c.figure + "\n"), nil
			case strings.Contains(args[0], "_reasons"):
				return []byte(`Field "clocks_event_reasons.active" is not a valid field to query.` + "\n"), errors.New("exit status 2")
			}
			return []byte(row + "\n"), nil
		}
		cards, faults := list(t, t.TempDir(), run)
		if len(cards) != 1 || len(faults) != 0 || cards[0].Reading.Celsius == nil {
			t.Fatalf("%v: %s", c, tellAll(cards, faults))
		}
		if got := slowdown(tell(cards[0])); got != c.want {
			t.Errorf("%v: %q", c, got)
		}
	}
}
