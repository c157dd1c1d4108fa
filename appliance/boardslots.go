package appliance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
)

// maxSeats is how many slots of one node a board has: what a stranger reports may be more than any has.
const maxSeats = 4096

// engines lists the backends of all nodes with their slots. What a node's own word lacks its capacity tells in part.
func (p picture) engines(requests []status.BoardRequest) (engines []status.Engine, seats []status.Seat) {
	engines, seats = []status.Engine{}, []status.Seat{}
	at := map[string][]status.BoardRequest{} // by engine
	for _, r := range requests {
		if r.Live {
			key := r.Node + "|" + r.Backend
			at[key] = append(at[key], r)
		}
	}
	for _, n := range p.nodes {
		own := n.ownSlots()
		left := maxSeats
		for _, e := range n.engines() {
			engines = append(engines, e)
			these := countedSeats(e)
			if slots, told := own[e.Backend]; told {
				these = knownSeats(e, slots, at[e.Key])
			}
			these = these[:min(len(these), left)]
			seats, left = append(seats, these...), left-len(these)
		}
	}
	return engines, seats
}

// engines joins what the node's report and its own word say of its backends, by their ids.
func (n pictured) engines() (all []status.Engine) {
	byID := map[string]status.Engine{}
	if n.report != nil {
		for _, m := range n.report.Models {
			for _, b := range m.Backends {
				byID[b.ID] = n.reported(m, b)
			}
		}
	}
	if n.view != nil {
		for _, m := range n.view.Node.Models {
			for _, b := range m.Backends {
				byID[b.ID] = n.own(byID[b.ID], m, b)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		all = append(all, byID[id])
	}
	return all
}

func (n pictured) key(backend string) string { return n.Name + "|" + backend }

func (n pictured) reported(m mesh.Model, b mesh.Backend) status.Engine {
	e := status.Engine{
		Key: n.key(b.ID), Node: n.Name, Self: n.self, Backend: b.ID, Model: m.Name, State: "unknown",
		PrefillTPS: tenth(b.PrefillTPS), DecodeTPS: tenth(b.DecodeTPS), Residents: ptr(b.Residents), Decoding: ptr(b.Decoding),
	}
	switch {
	case n.State == "silent":
		e.State = "silent"
	case n.report.Draining:
		e.State = "draining"
	case b.Ready:
		e.State = "ready"
	case b.Loading:
		e.State = "loading"
	}
	if b.Ready {
		e.Slots, e.Free = ptr(b.Slots), ptr(b.Free)
	}
	if m.Context > 0 {
		e.Context = ptr(m.Context)
	}
	return e
}

// own puts the node's word over what its report says.
func (n pictured) own(e status.Engine, m status.Model, b status.Backend) status.Engine {
	e.Key, e.Node, e.Self, e.Backend, e.Model = n.key(b.ID), n.Name, n.self, b.ID, m.Name
	if e.State == "" || e.State == "unknown" || e.State == "ready" || e.State == "loading" {
		e.State = b.State
	}
	e.Progress, e.Error, e.Build, e.Restarts = b.Progress, b.Error, b.Engine, ptr(b.Restarts)
	e.Cards = strings.Trim(fmt.Sprint(b.GPUs), "[]")
	if m.Context > 0 {
		e.Context = ptr(m.Context)
	}
	return e
}

func tenth(v *float64) *float64 {
	if v == nil {
		return nil
	}
	return ptr(float64(int64(*v*10+0.5)) / 10)
}

// ownSlots are the node's slots by backend, as it tells them itself.
func (n pictured) ownSlots() map[string][]status.Slot {
	all := map[string][]status.Slot{}
	if n.view == nil {
		return all
	}
	for _, m := range n.view.Node.Models {
		for _, b := range m.Backends {
			all[b.ID] = b.Slots
		}
	}
	return all
}

// knownSeats says of each slot what it is at, as far as the requests at its engine tell.
func knownSeats(e status.Engine, slots []status.Slot, running []status.BoardRequest) (all []status.Seat) {
	for _, s := range slots {
		seat := status.Seat{
			Key: e.Key + "|" + itoa(s.ID), Engine: e.Key, Node: e.Node, Backend: e.Backend, Model: e.Model, Slot: s.ID,
			State: s.State, Session: s.Session, Tokens: s.Tokens,
		}
		switch s.State {
		case "free":
			seat.State = "idle"
			if s.Session != "" || s.Tokens != nil && *s.Tokens > 0 {
				seat.State = "held"
			}
		case "busy":
			workAt(&seat, running)
		}
		all = append(all, seat)
	}
	return all
}

// workAt looks for the request at a slot: by its conversation, or as the only one at the engine.
func workAt(seat *status.Seat, running []status.BoardRequest) {
	for _, r := range running {
		if r.State == "queued" || len(running) > 1 && (seat.Session == "" || r.Session != seat.Session) {
			continue
		}
		seat.Request = r.ID
		if seat.Tokens == nil && r.Done != nil {
			seat.Tokens = plus(r.Done, r.Output)
		}
		if seat.State = "prefill"; r.State == "generating" {
			seat.State = "decode"
		}
		return
	}
	states := map[string]bool{}
	for _, r := range running {
		states[r.State] = true
	}
	switch {
	case len(running) > 0 && len(states) == 1 && states["generating"]:
		seat.State = "decode"
	case len(running) > 0 && len(states) == 1 && states["prefill"]:
		seat.State = "prefill"
	}
}

// countedSeats are those of an engine whose node tells only how many there are.
func countedSeats(e status.Engine) (all []status.Seat) {
	if e.Slots == nil || e.Free == nil {
		return nil
	}
	for i := range *e.Slots {
		seat := status.Seat{Key: e.Key + "|" + itoa(i), Engine: e.Key, Node: e.Node, Backend: e.Backend, Model: e.Model, Slot: i, State: "busy"}
		if e.State == "silent" {
			seat.State = "unknown"
		} else if i >= *e.Slots-*e.Free {
			seat.State = "idle"
		}
		all = append(all, seat)
	}
	return all
}
