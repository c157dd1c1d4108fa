package appliance

import (
	"github.com/prometheus/client_golang/prometheus"

	"viiwork/appliance/status"
)

// cacheMetrics tells Prometheus what /api/kv tells people. It reads when it is asked and keeps nothing.
type cacheMetrics struct{ report func() status.KV }

var (
	kvStoreBytes  = metric("kv_store_bytes", "Bytes of the store of saved caches.")
	kvStoreBudget = metric("kv_store_budget_bytes", "Bytes that the store may take.")
	kvReplicas    = metric("kv_replicas", "Saved caches in the store.")

	kvBytes     = metric("kv_transferred_bytes_total", "Bytes of caches that came from a node.", "from", "to", "path")
	kvTransfers = metric("kv_transfers_total", "Transfers of caches from a node.", "from", "to", "path")
	kvSeconds   = metric("kv_transfer_seconds_total", "Seconds these transfers took.", "from", "to", "path")
	kvImports   = metric("kv_imports_total", "Caches that were to come, by what came of them.", "from", "to", "path", "outcome")
	kvPhases    = metric("kv_import_seconds_total", "Seconds that imports took, by phase.", "from", "to", "path", "phase")

	kvSaves   = metric("kv_saves_total", "Slots that were saved.", "model")
	kvSaved   = metric("kv_saved_bytes_total", "Bytes of these.", "model")
	kvStall   = metric("kv_save_stall_seconds_total", "Seconds in which engines did nothing else for that.", "model")
	kvMoves   = metric("kv_moved_turns_total", "Turns that ran on another node than the one before, by the share of the prompt that was cached.", "model", "class")
	kvEnabled = metric("kv_enabled", "Whether a model's caches are moved.", "model")
)

func (m cacheMetrics) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, to) }

func (m cacheMetrics) Collect(to chan<- prometheus.Metric) {
	doc := m.report()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	total := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge(kvStoreBytes, float64(doc.Store.Bytes))
	gauge(kvStoreBudget, float64(doc.Store.Budget))
	gauge(kvReplicas, float64(doc.Store.Replicas))
	for _, p := range doc.Pairs {
		total(kvBytes, float64(p.Bytes), p.From, p.To, p.Path)
		total(kvTransfers, float64(p.Transfers), p.From, p.To, p.Path)
		total(kvSeconds, p.Seconds, p.From, p.To, p.Path)
		total(kvImports, float64(p.Proved), p.From, p.To, p.Path, "proved")
		total(kvImports, float64(p.Failed), p.From, p.To, p.Path, "failed")
		total(kvPhases, p.FetchSeconds, p.From, p.To, p.Path, "fetch")
		total(kvPhases, p.AssembleSeconds, p.From, p.To, p.Path, "assemble")
		total(kvPhases, p.RestoreSeconds, p.From, p.To, p.Path, "restore")
	}
	for _, m := range doc.Models {
		total(kvSaves, float64(m.Saves), m.Name)
		total(kvSaved, float64(m.SavedBytes), m.Name)
		total(kvStall, m.StallSeconds, m.Name)
		for class, n := range map[string]int{"warm": m.Warm, "partly": m.Partly, "cold": m.Cold} {
			total(kvMoves, float64(n), m.Name, class)
		}
		enabled := 0.0
		if m.Enabled {
			enabled = 1
		}
		gauge(kvEnabled, enabled, m.Name)
	}
}
