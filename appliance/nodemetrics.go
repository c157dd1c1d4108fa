package appliance

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"viiwork/appliance/status"
)

// nodeMetrics tells Prometheus how the node stands. It reads when it is asked and keeps nothing. What is not known has no series.
type nodeMetrics struct{ a *Appliance }

var (
	nodeBuild    = metric("build_info", "1, with the version of this node.", "version")
	nodeDraining = metric("node_draining", "1 while the node grants no seats.")
	nodeWarnings = metric("warnings", "What the owner should mend, by the id that status and doctor give it.", "id")
	nodeInFlight = metric("requests_in_flight", "Requests being answered by this node, forwarded ones among them.")

	modelWaiting = metric("model_waiting_requests", "Requests in this node's line for a model.", "model")
	modelContext = metric("model_context_tokens", "Tokens that a slot of the model holds.", "model")

	backendUp       = metric("backend_up", "1 while the engine takes requests.", "model", "backend")
	backendSlots    = metric("backend_slots", "Slots of the engine.", "model", "backend")
	backendFree     = metric("backend_free_slots", "Those of them that are free.", "model", "backend")
	backendProgress = metric("backend_load_progress_ratio", "How far the engine has loaded its model.", "model", "backend")
	backendRestarts = metric("backend_restarts_total", "How often the engine was started again.", "model", "backend")

	meshMembers = metric("mesh_members", "Machines of the mesh by state, this one included.", "state")
	meshAge     = metric("mesh_member_report_age_seconds", "How long ago a member last told its capacity.", "node")
	meshSlots   = metric("mesh_model_slots", "Slots of a model in the mesh, as this node knows it.", "model")
	meshFree    = metric("mesh_model_free_slots", "Those of them that are free.", "model")
	meshWaiting = metric("mesh_model_waiting_requests", "Requests in all nodes' lines for the model.", "model")

	gpuMemory = metric("gpu_memory_bytes", "Memory of the card.", "accel", "gpu")
	gpuPlan   = metric("gpu_memory_planned_bytes", "What the models on it were expected to take.", "accel", "gpu")
	gpuUsed   = metric("gpu_memory_used_bytes", "What all programs use of it.", "accel", "gpu")
	gpuBusy   = metric("gpu_busy_ratio", "How busy the card is.", "accel", "gpu")
	gpuHeat   = metric("gpu_temperature_celsius", "How hot it is.", "accel", "gpu")
	gpuPower  = metric("gpu_power_watts", "What it takes.", "accel", "gpu")
	gpuLimit  = metric("gpu_power_limit_watts", "What it may take.", "accel", "gpu")
	gpuSlow   = metric("gpu_throttled", "1 while the driver says that the card slows down for that reason.", "accel", "gpu", "reason")
)

// memberStates are all there are, so that one which nobody is in is 0.
var memberStates = []string{"alive", "draining", "silent", "left", "failed"}

// Describe makes it an unchecked collector: what there is, is known when it is asked.
func (nodeMetrics) Describe(chan<- *prometheus.Desc) {}

// gauges sends what is known.
type gauges struct{ to chan<- prometheus.Metric }

func (g gauges) set(d *prometheus.Desc, v float64, labels ...string) {
	m, err := prometheus.NewConstMetric(d, prometheus.GaugeValue, v, labels...)
	if err == nil { // else a name is no text, and must not cost the others
		g.to <- m
	}
}

func known[T int | int64 | float64](g gauges, d *prometheus.Desc, v *T, labels ...string) {
	if v != nil {
		g.set(d, float64(*v), labels...)
	}
}

func truth(v bool) float64 {
	if v {
		return 1
	}
	return 0
}

func (m nodeMetrics) Collect(to chan<- prometheus.Metric) {
	g, now := gauges{to}, m.a.Status()
	g.set(nodeBuild, 1, now.Version)
	g.set(nodeDraining, truth(m.a.draining.Load()))
	g.set(nodeInFlight, float64(m.a.gateway.Inflight()))
	warnings := map[string]int{}
	for _, w := range now.Warnings {
		warnings[w.ID]++
	}
	for id, n := range warnings {
		g.set(nodeWarnings, float64(n), id)
	}
	m.models(g, now.Models)
	m.members(g, now.Members)
	m.fleet(g)
	for _, c := range now.GPUs {
		card(g, c)
	}
}

func (m nodeMetrics) models(g gauges, models []status.Model) {
	for _, model := range models {
		g.set(modelWaiting, float64(model.Waiting), model.Name)
		if model.Context > 0 {
			g.set(modelContext, float64(model.Context), model.Name)
		}
		for _, b := range model.Backends {
			up := b.State == "ready" || b.State == "busy"
			g.set(backendUp, truth(up), model.Name, b.ID)
			known(g, backendProgress, b.Progress, model.Name, b.ID)
			restarts, err := prometheus.NewConstMetric(backendRestarts, prometheus.CounterValue, float64(b.Restarts), model.Name, b.ID)
			if err == nil {
				g.to <- restarts
			}
			if !up {
				continue
			}
			free := 0
			for _, s := range b.Slots {
				if s.State == "free" {
					free++
				}
			}
			g.set(backendSlots, float64(len(b.Slots)), model.Name, b.ID)
			g.set(backendFree, float64(free), model.Name, b.ID)
		}
	}
}

func (m nodeMetrics) members(g gauges, members []status.Member) {
	states, ages := map[string]int{}, map[string]float64{}
	for i, member := range members {
		states[member.State]++
		if i > 0 && member.AgeMS >= 0 && len(ages) < mostNames { // of two with one name for a moment, one is told
			ages[member.Name] = float64(member.AgeMS) / 1000
		}
	}
	for _, state := range memberStates {
		g.set(meshMembers, float64(states[state]), state)
	}
	for name, age := range ages {
		g.set(meshAge, age, name)
	}
}

func (m nodeMetrics) fleet(g gauges) {
	for i, model := range m.a.gateway.Fleet() {
		if i == mostNames { // this node's own come first
			return
		}
		known(g, meshSlots, model.Slots, model.Name)
		known(g, meshFree, model.Free, model.Name)
		known(g, meshWaiting, model.Queued, model.Name)
	}
}

func card(g gauges, c status.GPU) {
	at := []string{c.Accel, strconv.Itoa(c.Index)}
	known(g, gpuMemory, c.Memory, at...)
	known(g, gpuPlan, c.Planned, at...)
	known(g, gpuUsed, c.Used, at...)
	known(g, gpuBusy, c.Busy, at...)
	known(g, gpuHeat, c.Celsius, at...)
	known(g, gpuPower, c.Watts, at...)
	known(g, gpuLimit, c.CapWatts, at...)
	for reason, slow := range map[string]*bool{"heat": c.ByHeat, "power": c.ByPower} {
		if slow != nil {
			g.set(gpuSlow, truth(*slow), c.Accel, at[1], reason)
		}
	}
}
