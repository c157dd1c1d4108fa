package gpu_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"viiwork/engine"
	"viiwork/engine/gpu"
)

// tree writes files into a folder that stands for "/".
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	plant(t, root, files)
	return root
}

func plant(t testing.TB, root string, files map[string]string) {
	t.Helper()
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const nodes = "sys/class/kfd/kfd/topology/nodes/"

func fixture(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// splitNodes cuts a capture that holds several nodes at its comment lines.
func splitNodes(text string) map[string]string {
	files := map[string]string{}
	for i, part := range strings.Split(text, "# node ")[1:] {
		_, properties, _ := strings.Cut(part, "\n")
		files[fmt.Sprintf("%s%d/properties", nodes, i)] = properties
	}
	return files
}

// summaryNodes turns "node 1: a 1, b 2" lines into property files.
func summaryNodes(text string) map[string]string {
	files := map[string]string{}
	for line := range strings.Lines(text) {
		head, list, _ := strings.Cut(strings.TrimSpace(line), ":")
		var properties strings.Builder
		for _, pair := range strings.Split(list, ",") {
			fields := strings.Fields(pair)
			fmt.Fprintf(&properties, "%s %s\n", fields[0], fields[1])
		}
		files[nodes+strings.TrimPrefix(head, "node ")+"/properties"] = properties.String()
	}
	return files
}

// sysfs reads a capture of "path: value" lines.
func sysfs(text string) map[string]string {
	files := map[string]string{}
	for line := range strings.Lines(text) {
		if path, value, found := strings.Cut(line, ": "); found && strings.HasPrefix(path, "/") {
			files[path] = value
		}
	}
	return files
}

func list(t testing.TB, root string, run gpu.Run) ([]gpu.Card, []gpu.Fault) {
	t.Helper()
	return gpu.Host{Root: root, OS: "linux", Run: run}.List(t.Context())
}

func none(context.Context, string, ...string) ([]byte, error) { return nil, exec.ErrNotFound }

func memory(c gpu.Card) string {
	if c.Memory == nil {
		return "unknown"
	}
	return fmt.Sprint(*c.Memory)
}

func describe(cards []gpu.Card) string {
	var lines []string
	for _, c := range cards {
		line := fmt.Sprintf("%d %s %q %s %s %s", c.Index, c.Accel, c.Name, c.Gfx, c.PCI, memory(c))
		if c.Integrated {
			line += " integrated"
		}
		if c.Split {
			line += " split"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestAMDCardsAreReadFromTheKernel(t *testing.T) {
	vega := sysfs(fixture(t, "amdgpu-sysfs-vega20.txt"))
	vega[nodes+"0/properties"] = "simd_count 0\n"
	vega[nodes+"1/properties"] = "simd_count 240\ngfx_target_version 90006\nlocation_id 768\ndomain 0\ndrm_render_minor 128\nlocal_mem_size 0\n"
	vega[nodes+"1/name"] = "vega20\n"
	vega["sys/class/drm/card1/device/uevent"] = "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n"

	eleven := map[string]string{} // numbers sort as numbers, not as text
	for i := range 12 {
		eleven[fmt.Sprintf("%s%d/properties", nodes, i)] = fmt.Sprintf("simd_count %d\nlocation_id %d\n", min(i, 1), i<<8)
	}

	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"processor beside a card, memory not told": {
			splitNodes(fixture(t, "kfd-gfx1100-dgpu-with-cpu-node.txt")),
			`0 rocm "AMD (gfx1100)" gfx1100 0000:03:00.0 unknown`,
		},
		"integrated part beside an MI50, step in hex": {
			summaryNodes(fixture(t, "kfd-summary-mi50-plus-renoir-igpu.txt")),
			"0 rocm \"AMD (gfx906)\" gfx906  unknown\n1 rocm \"AMD (gfx90c)\" gfx90c  unknown integrated",
		},
		"old kernel without a gfx line": {
			map[string]string{
				nodes + "0/properties": fixture(t, "kfd-old-kernel-no-gfx-version-node0.properties"),
				nodes + "1/properties": fixture(t, "kfd-old-kernel-no-gfx-version-node1.properties"),
			},
			`0 rocm "AMD"  0000:19:00.0 17163091968`,
		},
		"memory from the card with the same address": {vega, `0 rocm "AMD vega20 (gfx906)" gfx906 0000:03:00.0 17163091968`},
		"no card": {nil, ""},
		"hostile text": {
			map[string]string{nodes + "1/properties": "simd_count 9\ngfx_target_version -5\nlocation_id 99999999999999999999\n\x00\xff"},
			`0 rocm "AMD"   unknown`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cards, faults := list(t, tree(t, c.files), none)
			if got := describe(cards); got != c.want || len(faults) > 0 {
				t.Errorf("got\n%s\nfaults %v; want\n%s", got, faults, c.want)
			}
		})
	}
	t.Run("order of nodes", func(t *testing.T) {
		cards, _ := list(t, tree(t, eleven), none)
		if len(cards) != 11 || cards[9].PCI != "0000:0a:00.0" || cards[9].Index != 9 {
			t.Errorf("the tenth card is not node 10:\n%s", describe(cards))
		}
	})
}

func TestAMDCardWithoutComputeIsAFault(t *testing.T) {
	root := tree(t, map[string]string{"sys/class/drm/card0/device/vendor": "0x1002\n"})
	cards, faults := list(t, root, none)
	if len(cards) != 0 || len(faults) != 1 || faults[0].Fix == "" {
		t.Fatalf("cards %v, faults %+v; want one fault with a way out", cards, faults)
	}
}

// smi answers as nvidia-smi does: by the first argument, or by -L.
func smi(answers map[string]string, err error) gpu.Run {
	return func(_ context.Context, name string, args ...string) ([]byte, error) {
		if name != "nvidia-smi" {
			return nil, exec.ErrNotFound
		}
		for prefix, text := range answers {
			if strings.HasPrefix(args[0], prefix) {
				return []byte(text), err
			}
		}
		return nil, nil
	}
}

func TestNVIDIACardsAreReadFromTheTool(t *testing.T) {
	for name, c := range map[string]struct {
		csv, list string
		want      string
		fault     string // part of the only one; "" = none
	}{
		"two cards": {
			csv:  "0, NVIDIA GeForce RTX 3050 Ti Laptop GPU, GPU-a, 4096, 00000000:01:00.0\n1, NVIDIA A100-PCIE-40GB, GPU-b, 40960, 00000000:81:00.0\n",
			want: "0 cuda \"NVIDIA GeForce RTX 3050 Ti Laptop GPU\"  00000000:01:00.0 4294967296\n1 cuda \"NVIDIA A100-PCIE-40GB\"  00000000:81:00.0 42949672960",
		},
		"unified memory is unknown, not 0": {
			csv:  "0, NVIDIA GB10, GPU-a, [N/A], 0000000F:01:00.0\n",
			want: `0 cuda "NVIDIA GB10"  0000000F:01:00.0 unknown`,
		},
		"older drivers' word for unknown": {
			csv:  "0, NVIDIA X, GPU-a, [Not Supported], [N/A]\n",
			want: `0 cuda "NVIDIA X"   unknown`,
		},
		"a card in instances": {
			csv:   "0, NVIDIA A100-SXM4-80GB, GPU-a, 81920, 00000000:01:00.0\n1, NVIDIA A100-SXM4-80GB, GPU-b, 81920, 00000000:02:00.0\n",
			list:  "nvidia-smi-L-mig-a100.txt",
			want:  "0 cuda \"NVIDIA A100-SXM4-80GB\"  00000000:01:00.0 85899345920 split\n1 cuda \"NVIDIA A100-SXM4-80GB\"  00000000:02:00.0 85899345920",
			fault: "MIG",
		},
		"hostile lines": {csv: "-1, x, y, 1, z\n99999999999999999999, a, b, c, d\n7\n\xff,,,,,\n", want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string]string{"--query-gpu": c.csv}
			if c.list != "" {
				answers["-L"] = fixture(t, c.list)
			}
			cards, faults := list(t, t.TempDir(), smi(answers, nil))
			if got := describe(cards); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if c.fault == "" && len(faults) > 0 || c.fault != "" && (len(faults) != 1 || !strings.Contains(faults[0].Text, c.fault)) {
				t.Errorf("faults %+v, want one about %q", faults, c.fault)
			}
		})
	}
}

func TestDriverFaultsAreToldApart(t *testing.T) {
	failed := errors.New("exit status 18")
	for file, want := range map[string]string{
		"nvidia-smi-driver-mismatch.txt":    "reboot this machine",
		"nvidia-smi-nvml-unknown-error.txt": "restart the container",
		"nvidia-smi-gpu-lost.txt":           "check the card",
	} {
		cards, faults := list(t, t.TempDir(), smi(map[string]string{"--query-gpu": fixture(t, file)}, failed))
		if len(cards) != 0 || len(faults) != 1 || !strings.Contains(faults[0].Fix, want) {
			t.Errorf("%s: cards %v, faults %+v; want one mended by %q", file, cards, faults, want)
		}
	}
	_, faults := list(t, t.TempDir(), smi(map[string]string{"--query-gpu": fixture(t, "nvidia-smi-gpu-lost.txt")}, failed))
	if len(faults) != 1 || faults[0].PCI != "0000:02:00.0" {
		t.Errorf("the lost card's address is not told: %+v", faults)
	}
	_, faults = list(t, t.TempDir(), smi(map[string]string{"--query-gpu": "???"}, failed))
	if len(faults) != 1 || !strings.Contains(faults[0].Text, "exit status 18") {
		t.Errorf("an unknown fault is not told as it is: %+v", faults)
	}
	if cards, faults := list(t, t.TempDir(), none); len(cards)+len(faults) > 0 {
		t.Errorf("a machine without cards: %v, %v", cards, faults)
	}
}

func TestOneLostCardLeavesTheOthers(t *testing.T) {
	text := fixture(t, "nvidia-smi-gpu-lost.txt") + "1, NVIDIA X, GPU-b, 1024, 00000000:03:00.0\n"
	cards, faults := list(t, t.TempDir(), smi(map[string]string{"--query-gpu": text}, errors.New("exit status 15")))
	if len(cards) != 1 || cards[0].Index != 1 || len(faults) != 1 {
		t.Fatalf("cards %v, faults %+v; want card 1 and one fault", cards, faults)
	}
}

func TestPlacementIsWrongOnlyWhenSeenElsewhere(t *testing.T) {
	run := smi(map[string]string{
		"--query-compute-apps": "100, GPU-a\n200, GPU-b\n300, GPU-a\n300, GPU-b\n400, [N/A]\n",
		"--query-gpu":          "0, X, GPU-a, 1024\n1, X, GPU-b, 1024\n",
	}, nil)
	root := tree(t, map[string]string{
		nodes + "0/properties":                 "simd_count 0\n",
		nodes + "1/properties":                 "simd_count 240\n",
		nodes + "1/gpu_id":                     "5001\n",
		nodes + "2/properties":                 "simd_count 240\n",
		nodes + "2/gpu_id":                     "5002\n",
		"sys/class/kfd/kfd/proc/700/vram_5001": "8000000000\n",
		"sys/class/kfd/kfd/proc/700/vram_5002": "4096\n",
		"sys/class/kfd/kfd/proc/800/vram_5001": "0\n",
		"sys/class/kfd/kfd/proc/800/vram_5002": "8000000000\n",
	})
	for _, c := range []struct {
		pids, gpus []int
		accel      engine.Accel
		want       engine.Placement
	}{
		{[]int{100}, []int{0}, engine.AccelCUDA, engine.PlacementRight},
		{[]int{100}, []int{1}, engine.AccelCUDA, engine.PlacementWrong},
		{[]int{300}, []int{0, 1}, engine.AccelCUDA, engine.PlacementRight},
		{[]int{300}, []int{0}, engine.AccelCUDA, engine.PlacementWrong},
		{[]int{400}, []int{0}, engine.AccelCUDA, engine.PlacementUnknown},
		{[]int{999}, []int{0}, engine.AccelCUDA, engine.PlacementUnknown},
		{nil, []int{0}, engine.AccelCUDA, engine.PlacementUnknown},
		{[]int{100}, nil, engine.AccelNone, engine.PlacementWrong},
		{[]int{999}, nil, engine.AccelNone, engine.PlacementUnknown},
		{[]int{700}, []int{0}, engine.AccelROCm, engine.PlacementRight},
		{[]int{800}, []int{0}, engine.AccelROCm, engine.PlacementWrong},
		{[]int{900}, []int{0}, engine.AccelROCm, engine.PlacementUnknown},
		{[]int{700}, nil, engine.AccelMetal, engine.PlacementUnknown},
	} {
		got := gpu.Host{Root: root, Run: run}.Placed(t.Context(), c.pids, c.gpus, c.accel)
		if got != c.want {
			t.Errorf("pids %v on %s cards %v: %v, want %v", c.pids, c.accel, c.gpus, got, c.want)
		}
	}
	broken := gpu.Host{Root: t.TempDir(), Run: smi(map[string]string{"--query": "100, GPU-a"}, errors.New("exit status 9"))}
	if got := broken.Placed(t.Context(), []int{100}, []int{1}, engine.AccelCUDA); got != engine.PlacementUnknown {
		t.Errorf("a driver that fails proves nothing, got %v", got)
	}
}
