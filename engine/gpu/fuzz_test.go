package gpu_test

import (
	"context"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"viiwork/engine/gpu"
)

// sane fails on a card that no machine has, whatever was read.
func sane(t *testing.T, cards []gpu.Card, faults []gpu.Fault) {
	t.Helper()
	if len(cards) > 256 || len(faults) > 1024 {
		t.Fatalf("%d cards, %d faults", len(cards), len(faults))
	}
	text := func(what string) {
		if len(what) > 1024 || !utf8.ValidString(what) || strings.ContainsFunc(what, unicode.IsControl) {
			t.Fatalf("%q is not fit to print", what)
		}
	}
	for _, c := range cards {
		r := c.Reading
		switch {
		case c.Index < 0, c.Index > 255, c.RenderMinor < 0,
			c.Memory != nil && (*c.Memory <= 0 || *c.Memory > 1<<50),
			r.Used != nil && (*r.Used < 0 || *r.Used > 1<<50),
			r.Busy != nil && !(*r.Busy >= 0 && *r.Busy <= 1),
			r.Celsius != nil && !(*r.Celsius >= -50 && *r.Celsius <= 200),
			r.Watts != nil && !(*r.Watts >= 0 && *r.Watts <= 5000),
			r.CapWatts != nil && !(*r.CapWatts >= 0 && *r.CapWatts <= 5000):
			t.Fatalf("%s", tell(c))
		}
		for _, word := range append([]string{c.Name, c.Gfx, c.PCI, c.UUID}, c.Instances...) {
			text(word)
		}
	}
	for _, f := range faults {
		text(f.Text)
		text(f.Fix)
		if f.ID == "" || f.Fix == "" {
			t.Fatalf("%+v has no name or no way out", f)
		}
	}
}

func FuzzKFD(f *testing.F) {
	f.Add(fixture(f, "kfd-old-kernel-no-gfx-version-node1.properties"), "vega20", "PCI_SLOT_NAME=0000:19:00.0\n", "17163091968")
	f.Add("simd_count 240\ngfx_target_version 90006\nlocation_id 768\ndomain 0\ndrm_render_minor 128\n", "vega20\n", "", "0")
	f.Add("simd_count 608\nlocation_id 268436736\n", "", "PCI_SLOT_NAME=0000:05:00.0\n", "-1")
	h := gpu.Host{OS: "linux", Run: none, Root: f.TempDir()} // one for all rounds: new folders would take most of the time
	f.Fuzz(func(t *testing.T, properties, name, uevent, figure string) {
		const card = "sys/class/drm/card1/device/"
		plant(t, h.Root, map[string]string{
			nodes + "1/properties": properties, nodes + "1/name": name, nodes + "1/gpu_id": figure,
			nodes + "2/properties": properties, nodes + "2/mem_banks/0/properties": "heap_type 1\nsize_in_bytes " + figure,
			card + "vendor": "0x1002", card + "uevent": uevent, card + "mem_info_vram_total": figure, card + "mem_info_vram_used": figure, card + "gpu_metrics": properties,
			card + "gpu_busy_percent": figure, card + "hwmon/hwmon1/temp1_input": figure, card + "hwmon/hwmon1/power1_average": figure,
			card + "current_compute_partition": name,
		})
		cards, faults := h.List(t.Context())
		sane(t, cards, faults)
	})
}

func FuzzNvidiaSMI(f *testing.F) {
	for _, name := range []string{"nvidia-smi-csv-gb10-unified-na.txt", "nvidia-smi-csv-mixed-laptop-a100-na-power.txt", "nvidia-smi-a-wsl-excerpt.txt",
		"nvidia-smi-table-gb10-not-supported.txt", "nvidia-smi-gpu-lost.txt", "nvidia-smi-driver-mismatch.txt", "docker-error-no-nvidia-runtime.txt"} {
		f.Add(fixture(f, name), fixture(f, "nvidia-smi-L-mig-a100.txt"))
	}
	root := f.TempDir()
	f.Fuzz(func(t *testing.T, text, listed string) {
		for _, run := range []gpu.Run{smi(map[string]string{"--query-gpu": text, "-L": listed}, nil), old("-q", text), old("", text)} {
			cards, faults := list(t, root, run)
			sane(t, cards, faults)
		}
	})
}

func FuzzRocmSMI(f *testing.F) {
	for _, name := range []string{"rocm-smi-json-7900xt.json", "rocm-smi-json-igpu-680m.json", "rocm-smi-text-vram-na.txt"} {
		f.Add(fixture(f, name))
	}
	root := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		cards, faults := list(t, root, prints("rocm-smi", text, nil))
		sane(t, cards, faults)
	})
}

func FuzzSystemProfiler(f *testing.F) {
	for _, name := range []string{"system_profiler-m3pro-tail-constructed.json", "system_profiler-text-m3-two-displays.txt", "system_profiler-text-imacpro-amd.txt"} {
		f.Add(fixture(f, name), "68719476736", fixture(f, "ggml-metal-m3ultra-working-set.txt"))
	}
	root := f.TempDir()
	f.Fuzz(func(t *testing.T, profile, figure, log string) {
		run := func(_ context.Context, name string, _ ...string) ([]byte, error) {
			if name == "sysctl" {
				return []byte(figure), nil
			}
			return []byte(profile), nil
		}
		cards, faults := gpu.Host{Root: root, OS: "darwin", Run: run}.List(t.Context())
		sane(t, cards, faults)
		if n, found := gpu.WorkingSet(log); found && (n <= 0 || n > 1<<50) {
			t.Fatalf("working set %d", n)
		}
	})
}

func FuzzMeminfo(f *testing.F) {
	f.Add(meminfo)
	f.Add("MemTotal: -1 kB\n")
	h := gpu.Host{OS: "linux", Run: none, Root: f.TempDir()}
	f.Fuzz(func(t *testing.T, text string) {
		plant(t, h.Root, map[string]string{"proc/meminfo": text})
		if n := h.Memory(t.Context()); n != nil && (*n <= 0 || *n > 1<<50) {
			t.Fatalf("memory %d", *n)
		}
	})
}
