package gpu

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"viiwork/engine"
)

// resident is the memory on a card above which a process counts as sitting there. A ROCm process opens all cards it
// sees and keeps a few MiB on each; a model takes hundreds.
const resident = 64 << 20

// Placed compares where the processes sit with where they should. Only cards of that family are looked at, for
// accel none those of NVIDIA and AMD. Unknown is the answer whenever the drivers do not list the processes: in a
// container they may go by other numbers.
func (h Host) Placed(ctx context.Context, pids []int, gpus []int, accel engine.Accel) engine.Placement {
	var seen []int
	switch accel {
	case engine.AccelCUDA:
		seen = h.nvidiaSeen(ctx, pids)
	case engine.AccelROCm:
		seen = h.amdSeen(pids)
	case engine.AccelNone:
		seen = append(h.nvidiaSeen(ctx, pids), h.amdSeen(pids)...)
	}
	if len(seen) == 0 {
		return engine.PlacementUnknown
	}
	for _, index := range seen {
		if accel == engine.AccelNone || !slices.Contains(gpus, index) {
			return engine.PlacementWrong
		}
	}
	return engine.PlacementRight
}

// nvidiaSeen returns the indices of the cards the processes compute on.
func (h Host) nvidiaSeen(ctx context.Context, pids []int) []int {
	apps, found, err := h.smi(ctx, "--query-compute-apps=pid,gpu_uuid", "--format=csv,noheader")
	if !found || err != nil {
		return nil
	}
	cards, _, _ := h.askSMI(ctx)
	indices := map[string]int{}
	for _, c := range cards {
		if c.UUID != "" {
			indices[c.UUID] = c.Index
		}
	}
	var seen []int
	for line := range strings.Lines(apps) {
		number, uuid, _ := strings.Cut(strings.TrimSpace(line), ",")
		pid, err := strconv.Atoi(number)
		index, known := indices[strings.TrimSpace(uuid)]
		if err == nil && known && slices.Contains(pids, pid) {
			seen = append(seen, index)
		}
	}
	return seen
}

// amdSeen returns the indices of the cards that hold memory of the processes.
func (h Host) amdSeen(pids []int) []int {
	var seen []int
	nodes, _ := h.kfdNodes()
	for index, node := range nodes {
		for _, pid := range pids {
			path := h.path("sys/class/kfd/kfd/proc", strconv.Itoa(pid), fmt.Sprintf("vram_%d", node.gpuID))
			if bytes, err := strconv.ParseInt(readLine(path), 10, 64); err == nil && bytes > resident {
				seen = append(seen, index)
			}
		}
	}
	return seen
}
