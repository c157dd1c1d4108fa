package sim_test

import (
	"fmt"
	"testing"

	"viiwork/appliance/route/sim"
)

// BenchmarkFleet prints what the policy cost is worth, as ratios to classic on the same days, which nothing was tuned on. Caches that
// move are held against a classic, and a cost, without them.
func BenchmarkFleet(b *testing.B) {
	short := sim.Config{Fleet: "blog", Load: 0.9, KV: "pull"} // what is tried in short
	for _, cfg := range []sim.Config{
		{Fleet: "blog", Load: 0.6}, {Fleet: "blog", Load: 0.9}, {Fleet: "blog", Load: 1.2}, {Fleet: "blog", Load: 0.6, Headers: "none"},
		{Fleet: "blog", Load: 0.9, KV: "pull"}, {Fleet: "blog", Load: 0.9, KV: "replicate"}, {Fleet: "mixed16", Load: 0.9},
		{Fleet: "mixed16", Load: 0.9, KV: "pull"}, {Fleet: "two5090", Load: 0.9},
		{Fleet: "two5090", Load: 0.9, Sessions: 16, Hours: 6, KV: "pull"}, {Fleet: "two5090", Load: 0.9, Sessions: 16, Hours: 6, KV: "replicate"},
	} {
		if testing.Short() && cfg != short {
			continue
		}
		b.Run(fmt.Sprintf("%s/%v/headers=%s/kv=%s", cfg.Fleet, cfg.Load, cfg.Headers, cfg.KV), func(b *testing.B) {
			for b.Loop() {
				still := cfg
				still.KV = ""
				all := mean(b, still, sim.Classic, sim.Cost, sim.Oracle)
				cost, classic, oracle := all[sim.Cost], all[sim.Classic], all[sim.Oracle]
				if cfg.KV != "" {
					moving := mean(b, cfg, sim.Cost)[sim.Cost]
					b.ReportMetric(moving.TurnsPerHour/cost.TurnsPerHour, "turns/still")
					b.ReportMetric(moving.MovedNode, "moved")
					b.ReportMetric(moving.Warm, "warm")
					b.ReportMetric(moving.Partly, "partly")
					cost = moving
				}
				b.ReportMetric(cost.TurnsPerHour, "turns/h")
				b.ReportMetric(cost.TurnsPerHour/classic.TurnsPerHour, "turns/classic")
				b.ReportMetric(cost.TurnsPerHour/oracle.TurnsPerHour, "turns/oracle")
				b.ReportMetric(cost.TTFTMean/classic.TTFTMean, "ttft-mean/classic")
				b.ReportMetric(cost.TTFTP95/classic.TTFTP95, "ttft-p95/classic")
				b.ReportMetric(cost.Hit80, "hit")
				b.ReportMetric(cost.Rejected, "refused")
			}
		})
	}
}
