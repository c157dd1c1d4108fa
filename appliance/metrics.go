package appliance

import (
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"viiwork/appliance/status"
)

// cacheMetrics tells Prometheus what /api/kv tells people. It reads when it is asked and keeps nothing.
type cacheMetrics struct{ report func() status.KV }

func metric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("viiwork_kv_"+name, help, labels, nil)
}

var (
	kvStoreBytes  = metric("store_bytes", "Bytes of the store of saved caches.")
	kvStoreBudget = metric("store_budget_bytes", "Bytes that the store may take.")
	kvReplicas    = metric("replicas", "Saved caches in the store.")

	kvBytes     = metric("transferred_bytes_total", "Bytes of caches that came from a node.", "from", "to", "path")
	kvTransfers = metric("transfers_total", "Transfers of caches from a node.", "from", "to", "path")
	kvSeconds   = metric("transfer_seconds_total", "Seconds these transfers took.", "from", "to", "path")
	kvImports   = metric("imports_total", "Caches that were to come, by what came of them.", "from", "to", "path", "outcome")
	kvPhases    = metric("import_seconds_total", "Seconds that imports took, by phase.", "from", "to", "path", "phase")

	kvSaves   = metric("saves_total", "Slots that were saved.", "model")
	kvSaved   = metric("saved_bytes_total", "Bytes of these.", "model")
	kvStall   = metric("save_stall_seconds_total", "Seconds in which engines did nothing else for that.", "model")
	kvMoves   = metric("moved_turns_total", "Turns that ran on another node than the one before, by the share of the prompt that was cached.", "model", "class")
	kvEnabled = metric("enabled", "Whether a model's caches are moved.", "model")
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

// mountMetrics adds GET /metrics. It needs no slot.
func (a *Appliance) mountMetrics(e *echo.Echo) {
	all := prometheus.NewRegistry()
	all.MustRegister(cacheMetrics{func() status.KV { return a.caches.share.Report(a.current().Node.Name) }})
	e.GET("/metrics", echo.WrapHandler(promhttp.HandlerFor(all, promhttp.HandlerOpts{})))
}
