package appliance

import (
	"net"
	"strconv"

	"viiwork/appliance/config"
	"viiwork/appliance/status"
	"viiwork/engine"
)

// modelStatus is one model as the API shows it.
func modelStatus(m engine.ModelState) status.Model {
	model := status.Model{Name: m.Model.Name, Context: m.Model.Context, Waiting: m.Waiting, Backends: []status.Backend{}}
	for _, b := range m.Backends {
		backend := status.Backend{
			ID: b.ID, State: string(b.State), Engine: b.Build, Runner: string(m.Model.Runner), Process: b.Process,
			GPUs: b.GPUs, Restarts: b.Restarts, Error: b.Err, Slots: []status.Slot{},
		}
		if b.State == engine.StateLoading && b.Progress >= 0 {
			backend.Progress = &b.Progress
		}
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

// memberState is how this node shows among the members.
func memberState(state string) string {
	if state == "draining" {
		return "draining"
	}
	return "alive"
}

// firstAddress is where other machines would reach this node, "" when only programs of this machine can.
func firstAddress(cfg *config.Config) string {
	if cfg.Mesh.Network != "lan" {
		return ""
	}
	return net.JoinHostPort(cfg.API.Host, itoa(cfg.API.Port))
}

func itoa(n int) string { return strconv.Itoa(n) }
