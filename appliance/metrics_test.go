package appliance_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"viiwork/appliance"
	"viiwork/appliance/status"
)

// TestCacheMetricsAreWellFormed: no two of one name and labels, and the figures are those of /api/kv.
func TestCacheMetricsAreWellFormed(t *testing.T) {
	doc := status.KV{
		Store: status.KVStore{Bytes: 10, Budget: 20, Replicas: 1},
		Pairs: []status.KVPair{
			{From: "a", To: "b", Path: "mesh", Transfers: 2, Bytes: 30, Seconds: 0.5, Imports: 2, Proved: 1, Failed: 1},
			{From: "b", To: "b", Path: "store"},
		},
		Models: []status.KVModel{{Name: "m", Enabled: true, Saves: 4, Warm: 1}, {Name: "n"}},
	}
	all := prometheus.NewPedanticRegistry()
	all.MustRegister(appliance.CacheMetrics(func() status.KV { return doc }))
	families, err := all.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			sum[f.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"viiwork_kv_store_bytes": 10, "viiwork_kv_transferred_bytes_total": 30, "viiwork_kv_imports_total": 2,
		"viiwork_kv_saves_total": 4, "viiwork_kv_moved_turns_total": 1, "viiwork_kv_enabled": 1,
	} {
		if sum[name] != want {
			t.Errorf("%s is %v, want %v", name, sum[name], want)
		}
	}
}
