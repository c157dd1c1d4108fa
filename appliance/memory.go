package appliance

import (
	"log/slog"
	"os"
	"runtime/debug"

	"viiwork/appliance/setup"
)

// limitMemory gives the Go runtime a soft limit, so that a burst of large bodies makes the collector work harder instead
// of taking memory from the engines beside us. GOMEMLIMIT, when set, is the owner's own decision.
func limitMemory(log *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := memoryLimit(setup.TotalMemory())
	debug.SetMemoryLimit(limit)
	log.Debug("memory limit set", "bytes", limit)
}

// memoryLimit is 5 % of the machine's memory, and never under 256 MiB. total 0 = unknown.
func memoryLimit(total uint64) int64 {
	return max(256<<20, int64(total/20))
}
