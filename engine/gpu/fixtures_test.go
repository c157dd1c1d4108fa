package gpu_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"viiwork/engine/gpu"
)

// prints is a machine on which one program prints text whatever it is asked.
func prints(program, text string, err error) gpu.Run {
	return func(_ context.Context, name string, _ ...string) ([]byte, error) {
		if name != program {
			return nil, exec.ErrNotFound
		}
		return []byte(text), err
	}
}

// old is an nvidia-smi that knows no queries and answers the long form or, without arguments, the table.
func old(form, text string) gpu.Run {
	return func(_ context.Context, name string, args ...string) ([]byte, error) {
		switch {
		case name != "nvidia-smi":
			return nil, exec.ErrNotFound
		case len(args) == 0 && form == "", len(args) > 0 && args[0] == form:
			return []byte(text), nil
		case len(args) > 0 && args[0] == "-L":
			return nil, nil
		}
		return []byte(`Field "index" is not a valid field to query.` + "\n"), errors.New("exit status 2")
	}
}

func show[T any](figure *T) string {
	if figure == nil {
		return "-"
	}
	return fmt.Sprint(*figure)
}

// tell writes a card with everything that is known of it.
func tell(c gpu.Card) string {
	line := fmt.Sprintf("%s %d %q memory %s", c.Accel, c.Index, c.Name, show(c.Memory))
	if c.PCI != "" {
		line += " at " + c.PCI
	}
	for _, flag := range []struct {
		word string
		so   bool
	}{{"integrated", c.Integrated}, {"split", c.Split}, {"unified", c.Unified}, {"display", c.Display}} {
		if flag.so {
			line += " " + flag.word
		}
	}
	r := c.Reading
	line += fmt.Sprintf("; used %s busy %s %s°C %s/%sW", show(r.Used), show(r.Busy), show(r.Celsius), show(r.Watts), show(r.CapWatts))
	switch t := r.Throttle; {
	case t == nil:
	case *t == gpu.Throttle{}:
		line += " not throttled"
	default:
		line += fmt.Sprintf(" throttled: heat %t, power %t", t.Heat, t.Power)
	}
	return line
}

func tellAll(cards []gpu.Card, faults []gpu.Fault) string {
	var lines []string
	for _, c := range cards {
		lines = append(lines, tell(c))
	}
	for _, f := range faults {
		lines = append(lines, fmt.Sprintf("fault %s %s: %s: %s", f.ID, f.PCI, f.Text, f.Fix))
	}
	return strings.Join(lines, "\n")
}

const meminfo = "MemTotal:       125829120 kB\nMemFree: 1 kB\n"

// capture is what a tool printed, and the cards and faults it stands for.
type capture struct {
	run  gpu.Run
	os   string // "" = linux
	want string
}

func readAll(t *testing.T, captures map[string]capture) {
	t.Helper()
	for name, c := range captures {
		t.Run(name, func(t *testing.T) {
			h := gpu.Host{Root: tree(t, map[string]string{"proc/meminfo": meminfo}), OS: cmp.Or(c.os, "linux"), Run: c.run}
			if got := tellAll(h.List(t.Context())); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// TestEveryCaptureReadsRight holds each capture of a tool against what it means; those of the kernel's compute driver
// are in TestAMDCardsAreReadFromTheKernel.
func TestEveryCaptureReadsRight(t *testing.T) {
	header := func(columns, file string) string { return columns + "\n" + fixture(t, file) }
	readAll(t, map[string]capture{
		"unified memory is the system's": {
			run:  prints("nvidia-smi", fixture(t, "nvidia-smi-csv-gb10-unified-na.txt"), nil),
			want: `cuda 0 "NVIDIA GB10" memory 128849018880 unified; used - busy - -°C -/-W`,
		},
		"the table": {
			run:  old("", fixture(t, "nvidia-smi-table-gb10-not-supported.txt")),
			want: `cuda 0 "NVIDIA GB10" memory 128849018880 at 0000000F:01:00.0 unified; used - busy 0 36°C 3/-W`,
		},
		"the long form, under Windows": {
			run:  old("-q", fixture(t, "nvidia-smi-a-wsl-excerpt.txt")),
			want: `cuda 0 "NVIDIA GeForce GTX 1650 Ti with Max-Q Design" memory - at 00000000:01:00.0 display; used - busy - -°C -/-W`,
		},
		"one unknown value of two cards": {
			run: prints("nvidia-smi", header("index, name, temperature.gpu, memory.used [MiB], memory.total [MiB], power.draw [W], power.limit [W]",
				"nvidia-smi-csv-mixed-laptop-a100-na-power.txt"), nil),
			want: `cuda 0 "NVIDIA GeForce RTX 3050 Ti Laptop GPU" memory 4294967296; used 12582912 busy - 48°C 26.3/12.73W
cuda 1 "NVIDIA A100-PCIE-40GB" memory 42949672960; used 77594624 busy - 38°C -/36.79W`,
		},
		"cut into instances": {
			run: smi(map[string]string{
				"--query-gpu": "0, A100, GPU-0, 81920\n1, A100, GPU-1, 81920\n2, A100, GPU-2, 81920\n3, A100, GPU-3, 81920\n",
				"-L":          fixture(t, "nvidia-smi-L-mig-a100.txt")}, nil),
			want: `cuda 0 "A100" memory 85899345920 split; used - busy - -°C -/-W
cuda 1 "A100" memory 85899345920; used - busy - -°C -/-W
cuda 2 "A100" memory 85899345920; used - busy - -°C -/-W
cuda 3 "A100" memory 85899345920; used - busy - -°C -/-W
fault mig : card 0 is cut into 4 MIG instances (1g.20gb) and cannot run a model as a whole: leave it out of gpus, or undo it with 'nvidia-smi -i 0 -mig 0'`,
		},
		"the driver was updated": {
			run:  prints("nvidia-smi", fixture(t, "nvidia-smi-driver-mismatch.txt"), errors.New("exit status 18")),
			want: "fault driver_mismatch : the NVIDIA driver was updated but the old one is still loaded: reboot this machine",
		},
		"a container lost its cards": {
			run:  prints("nvidia-smi", fixture(t, "nvidia-smi-nvml-unknown-error.txt"), errors.New("exit status 255")),
			want: "fault container_lost_gpus : this container has lost its NVIDIA cards: restart the container; the host's cards are fine",
		},
		"a card is lost": {
			run:  prints("nvidia-smi", fixture(t, "nvidia-smi-gpu-lost.txt"), errors.New("exit status 15")),
			want: "fault gpu_lost 0000:02:00.0: NVIDIA card 0000:02:00.0 is lost: reboot this machine; if it happens again, check the card, its power and its slot",
		},
		"rocm-smi": {
			run:  prints("rocm-smi", fixture(t, "rocm-smi-json-7900xt.json"), nil),
			want: `rocm 0 "AMD Radeon RX 7900 XT (gfx1100)" memory 21458059264; used 27856896 busy 0 -°C -/-W`,
		},
		"rocm-smi, a processor's card": {
			run:  prints("rocm-smi", fixture(t, "rocm-smi-json-igpu-680m.json"), nil),
			want: `rocm 0 "AMD Rembrandt [Radeon 680M] (gfx1035)" memory 536870912 integrated; used 445550592 busy 0 49°C 28.159/-W`,
		},
		"rocm-smi's table, counting from 1": {
			run:  prints("rocm-smi", fixture(t, "rocm-smi-text-vram-na.txt"), nil),
			want: `rocm 0 "AMD card" memory -; used - busy 0 25°C 10/170W`,
		},
	})
}

func TestEveryMacReadsRight(t *testing.T) {
	readAll(t, map[string]capture{
		"a Mac's text, screens with names": {
			os:   "darwin",
			run:  prints("system_profiler", fixture(t, "system_profiler-text-m3-two-displays.txt"), nil),
			want: `metal 0 "Apple M3 (10 cores)" memory - unified display; used - busy - -°C -/-W`,
		},
		"a Mac's JSON": {
			os:   "darwin",
			run:  prints("system_profiler", fixture(t, "system_profiler-m3pro-tail-constructed.json"), nil),
			want: `metal 0 "Apple M3 Pro (18 cores)" memory - unified display; used - busy - -°C -/-W`,
		},
		"an Intel Mac": {
			os:   "darwin",
			run:  prints("system_profiler", fixture(t, "system_profiler-text-imacpro-amd.txt"), nil),
			want: "fault intel_mac : the card of this Mac (Radeon Pro Vega 64) is not Apple's own: engines use Apple silicon only: serve small models without a card, or use a Mac with Apple silicon",
		},
	})
}

// TestUnknownIsOneColumnOnly: under an older and a newer driver the same value is unknown, and the others are kept.
func TestUnknownIsOneColumnOnly(t *testing.T) {
	const want = `cuda 7 "X" memory 2101346304; used 2101346304 busy 0 44°C -/0W`
	rows := 0
	for line := range strings.Lines(fixture(t, "nvidia-smi-csv-na-vs-notsupported.txt")) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		rows++
		text := "index, name, memory.total [MiB], memory.used [MiB], utilization.gpu [%], temperature.gpu, power.draw [W], power.limit [W], fan.speed [%]\n7, X, " + line
		cards, faults := list(t, t.TempDir(), prints("nvidia-smi", text, nil))
		if got := tellAll(cards, faults); got != want {
			t.Errorf("%sgot  %s\nwant %s", line, got, want)
		}
	}
	if rows != 2 {
		t.Errorf("%d rows, want 2", rows)
	}
}

func TestDockersWordForAMissingToolkitIsKnown(t *testing.T) {
	faults := gpu.Faults(fixture(t, "docker-error-no-nvidia-runtime.txt"))
	if len(faults) != 1 || faults[0].ID != "toolkit_missing" || !strings.Contains(faults[0].Fix, "nvidia-container-toolkit") {
		t.Errorf("%+v", faults)
	}
}

func TestWorkingSetIsReadFromTheEnginesLog(t *testing.T) {
	got, found := gpu.WorkingSet(fixture(t, "ggml-metal-m3ultra-working-set.txt"))
	if !found || got != 498216210000 || (got+5000)>>30 != 464 {
		t.Errorf("%d %v, want 464 GiB to ten thousand bytes", got, found)
	}
	for _, text := range []string{"", "recommendedMaxWorkingSetSize = MB", "recommendedMaxWorkingSetSize  = 0.00 MB", "recommendedMaxWorkingSetSize = -3.00 MB", "recommendedMaxWorkingSetSize = 99999999999.00 MB"} {
		if got, found := gpu.WorkingSet(text); found {
			t.Errorf("%q reads as %d", text, got)
		}
	}
}

func TestAMacsLimitIsTheOwnersOrMacOSsShare(t *testing.T) {
	const gib = int64(1) << 30
	for _, c := range []struct{ memory, set, want int64 }{
		{16 * gib, 0, 16 * gib / 3 * 2}, {64 * gib, 0, 48 * gib}, {64 * gib, 57344, 56 * gib}, {64 * gib, 1 << 40, 48 * gib},
	} {
		run := func(_ context.Context, name string, args ...string) ([]byte, error) {
			switch {
			case name == "system_profiler":
				return []byte(fixture(t, "system_profiler-m3pro-tail-constructed.json")), nil
			case args[1] == "hw.memsize":
				return fmt.Appendln(nil, c.memory), nil
			}
			return fmt.Appendln(nil, c.set), nil
		}
		cards, _ := gpu.Host{Root: t.TempDir(), OS: "darwin", Run: run}.List(t.Context())
		if len(cards) != 1 || cards[0].Memory == nil || *cards[0].Memory != c.want {
			t.Errorf("%+v: %v", c, cards)
		}
	}
}

func TestACardThatMerelyDoesNotTellItsMemoryGetsNoneOfTheSystems(t *testing.T) {
	root := tree(t, map[string]string{"proc/meminfo": meminfo})
	cards, _ := list(t, root, prints("nvidia-smi", "0, Tesla M2050, GPU-a, [Not Supported], 00000000:01:00.0\n", nil))
	if len(cards) != 1 || cards[0].Memory != nil || cards[0].Unified {
		t.Errorf("%+v", cards)
	}
}

func TestTheKernelIsBelievedBeforeRocmSMI(t *testing.T) {
	root := tree(t, map[string]string{nodes + "1/properties": "simd_count 240\ngfx_target_version 90006\n"})
	cards, _ := list(t, root, prints("rocm-smi", fixture(t, "rocm-smi-json-7900xt.json"), nil))
	if len(cards) != 1 || cards[0].Gfx != "gfx906" {
		t.Errorf("%+v", cards)
	}
}

func TestPartsOfACardAreCardsOfTheirOwn(t *testing.T) {
	files := map[string]string{
		"sys/class/drm/card1/device/vendor":                    "0x1002\n",
		"sys/class/drm/card1/device/uevent":                    "PCI_SLOT_NAME=0000:05:00.0\n",
		"sys/class/drm/card1/device/mem_info_vram_total":       "206141652992\n",
		"sys/class/drm/card1/device/current_compute_partition": "DPX\n",
	}
	for i := range 2 {
		dir := fmt.Sprintf("%s%d/", nodes, i+1)
		files[dir+"properties"] = fmt.Sprintf("simd_count 608\ngfx_target_version 90402\ndomain 0\nlocation_id %d\ndrm_render_minor %d\n", i<<28|0x0500, 128+i)
		files[dir+"mem_banks/0/properties"] = "heap_type 1\nsize_in_bytes 103070826496\n"
	}
	got := tellAll(list(t, tree(t, files), none))
	want := `rocm 0 "AMD (gfx942)" memory 103070826496 at 0000:05:00.0; used - busy - -°C -/-W
rocm 1 "AMD (gfx942)" memory 103070826496 at 0000:05:00.0; used - busy - -°C -/-W
fault partitions 0000:05:00.0: AMD card 0000:05:00.0 is cut into 2 compute partitions (DPX): each is listed as a card of its own, with its share of the memory: leave it so for several small models; for large ones 'amd-smi set --compute-partition SPX' makes it whole again`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestHardwareWithoutItsDriverIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"NVIDIA":             {map[string]string{"sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n", "sys/bus/pci/devices/0000:01:00.0/class": "0x030000\n"}, "no_driver"},
		"its sound":          {map[string]string{"sys/bus/pci/devices/0000:01:00.1/vendor": "0x10de\n", "sys/bus/pci/devices/0000:01:00.1/class": "0x040300\n"}, ""},
		"AMD in a container": {map[string]string{nodes + "0/properties": "", nodes + "1/properties": ""}, "compute_shut"},
		"one AMD card of two": {map[string]string{
			nodes + "1/properties":                           "simd_count 240\nlocation_id 768\n",
			"sys/class/drm/card0/device/vendor":              "0x1002\n",
			"sys/class/drm/card0/device/uevent":              "PCI_SLOT_NAME=0000:03:00.0\n",
			"sys/class/drm/card1/device/vendor":              "0x1002\n",
			"sys/class/drm/card1/device/uevent":              "PCI_SLOT_NAME=0000:06:00.0\n",
			"sys/class/drm/card1/device/mem_info_vram_total": "17163091968\n",
		}, "no_compute"},
	} {
		_, faults := list(t, tree(t, c.files), none)
		if c.want == "" && len(faults) > 0 || c.want != "" && (len(faults) != 1 || faults[0].ID != c.want || faults[0].Fix == "") {
			t.Errorf("%s: %+v, want %q", name, faults, c.want)
		}
	}
}

// TestALongAnswerIsReadOnce: a tool gone mad prints until it is cut off at a MiB, and a reader that copies what it has for
// each further line takes minutes and hundreds of GiB for that.
func TestALongAnswerIsReadOnce(t *testing.T) {
	const lines = 40_000
	for name, text := range map[string]string{
		"rows":     strings.Repeat("a\n", lines),
		"sections": "Invalid combination of input arguments\n" + strings.Repeat("a\n", lines),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, faults := list(t, t.TempDir(), prints("nvidia-smi", text, errors.New("exit status 1")))
		runtime.ReadMemStats(&after)
		if len(faults) != 1 || faults[0].ID != "tool_failed" {
			t.Errorf("%s: %+v", name, faults)
		}
		if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 100 {
			t.Errorf("%s: %d bytes took %d MiB to read", name, len(text), mib)
		}
	}
}
