package gpu

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"viiwork/engine"
)

// Held tells how many bytes of each card of a family the processes hold, by the card's index. A card whose driver does not
// list them is left out: that is unknown, not nothing.
func (h Host) Held(ctx context.Context, pids []int, accel engine.Accel) map[int]int64 {
	held := map[int]int64{}
	switch accel {
	case engine.AccelROCm:
		nodes, _ := h.kfdNodes()
		for index, node := range nodes {
			for _, pid := range pids {
				path := h.path("sys/class/kfd/kfd/proc", strconv.Itoa(pid), "vram_"+strconv.FormatInt(node.gpuID, 10))
				if bytes, err := strconv.ParseInt(readLine(path), 10, 64); err == nil && bytes > resident {
					held[index] += bytes
				}
			}
		}
	case engine.AccelCUDA:
		apps, found, err := h.smi(ctx, "--query-compute-apps=pid,gpu_uuid,used_gpu_memory", "--format=csv,noheader,nounits")
		if !found || err != nil {
			return nil
		}
		cards, _ := h.nvidia(ctx)
		for line := range strings.Lines(apps) {
			number, rest, _ := strings.Cut(strings.TrimSpace(line), ",")
			uuid, field, _ := strings.Cut(rest, ",")
			pid, err := strconv.Atoi(number)
			at := slices.IndexFunc(cards, func(c Card) bool { return c.UUID != "" && c.UUID == strings.TrimSpace(uuid) })
			if bytes := mebibytes(strings.TrimSpace(field), 0); err == nil && at >= 0 && bytes != nil && slices.Contains(pids, pid) {
				held[cards[at].Index] += *bytes
			}
		}
	}
	return held
}
