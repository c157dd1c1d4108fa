package appliance

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"viiwork/appliance/config"
	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
	"viiwork/engine"
)

// stateOf is "ready" when every model is served, "starting" while one that is not is on its way, else "degraded".
func stateOf(models []engine.ModelState) string {
	state := "ready"
	for _, m := range models {
		switch {
		case slices.ContainsFunc(m.Backends, serving):
		case slices.ContainsFunc(m.Backends, comingUp):
			return "starting"
		default:
			state = "degraded"
		}
	}
	return state
}

func comingUp(b engine.BackendState) bool {
	return b.State == engine.StateStarting || b.State == engine.StateLoading
}

// cardsOf names what a backend runs on, so that what was measured there is believed of nothing else.
func (a *Appliance) cardsOf(accel engine.Accel, indices []int) string {
	a.mu.Lock()
	cards := a.cards
	a.mu.Unlock()
	if accel == engine.AccelNone {
		return "cpu"
	}
	names := []string{string(accel)}
	for _, c := range cards {
		if c.Accel == accel && slices.Contains(indices, c.Index) {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, ", ")
}

// modelStatus is one model as the API shows it.
func modelStatus(m engine.ModelState) status.Model {
	model := status.Model{Name: m.Model.Name, Context: m.SlotContext(), Waiting: m.Waiting, Backends: []status.Backend{}}
	for _, b := range m.Backends {
		backend := status.Backend{
			ID: b.ID, State: string(b.State), Engine: b.Build, Runner: string(m.Model.Runner), Process: b.Process,
			GPUs: b.GPUs, Restarts: b.Restarts, Error: b.Err, Slots: []status.Slot{},
		}
		if b.State == engine.StateLoading && b.Progress >= 0 {
			backend.Progress = &b.Progress
		}
		backend.Change = changeStatus(b.Change)
		for _, s := range b.Slots {
			slot := status.Slot{ID: s.ID, State: s.State, Session: s.Session}
			if s.Tokens >= 0 {
				slot.Tokens = &s.Tokens
			}
			backend.Slots = append(backend.Slots, slot)
		}
		model.Backends = append(model.Backends, backend)
	}
	return model
}

func changeStatus(c *engine.Change) *status.Change {
	if c == nil {
		return nil
	}
	change := &status.Change{State: string(c.State), Error: c.Err}
	if c.State == engine.StateLoading && c.Progress >= 0 {
		change.Progress = &c.Progress
	}
	return change
}

// firstAddress is where other machines would reach this node, "" when only programs of this machine can.
func firstAddress(cfg *config.Config) string {
	if cfg.Mesh.Network != "lan" {
		return ""
	}
	return net.JoinHostPort(cfg.API.Host, itoa(cfg.API.Port))
}

func itoa(n int) string { return strconv.Itoa(n) }

// report is this node's capacity as it tells the others.
func (a *Appliance) report() mesh.Report {
	report := a.gateway.Report()
	report.Draining = a.draining.Load()
	return report
}
