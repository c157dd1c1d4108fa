package gateway

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
	"viiwork/engine"
)

// fleetModel is a model with all nodes that have it.
type fleetModel struct {
	name    string
	hosts   []fleetHost
	aliasOf string // the model it is an alias of; "" = it is a model
}

// fleetHost is a node that has a model. A figure that is not known is nil or 0: an old one is not known.
type fleetHost struct {
	node, addr    string
	state         string // ready, busy, loading, starting, … or stale
	digest        string
	context       int
	slots, free   *int // nil unless ready
	waiting       int
	hold          time.Duration // how long a request takes a slot as a rule, 0 = unknown
	age           time.Duration
	stale, remote bool
}

// fleet lists the models of the whole mesh: this node's in its owner's order, then the others' by name.
func (g *Gateway) fleet() []fleetModel {
	var all []fleetModel
	at := map[string]int{}
	for _, m := range g.cfg.Engine.Snapshot() {
		at[m.Model.Name] = len(all)
		all = append(all, fleetModel{name: m.Model.Name, hosts: []fleetHost{g.ownHost(m)}})
	}
	others := map[string][]fleetHost{}
	for _, n := range g.members() {
		for _, name := range n.Known {
			others[name] = append(others[name], memberHost(n, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		if i, here := at[name]; here {
			all[i].hosts = append(all[i].hosts, others[name]...)
			continue
		}
		all = append(all, fleetModel{name: name, hosts: others[name]})
	}
	return all
}

// hostsOf are the nodes that have one model.
func (g *Gateway) hostsOf(model string) []fleetHost {
	for _, m := range g.fleet() {
		if m.name == model {
			return m.hosts
		}
	}
	return nil
}

func (g *Gateway) ownHost(m engine.ModelState) fleetHost {
	h := fleetHost{node: g.cfg.Node, context: m.Model.Context, waiting: m.Waiting, hold: m.Hold}
	if g.cfg.Digest != nil {
		h.digest = g.cfg.Digest(m.Model.Name)
	}
	best := engine.StateFailed
	slots, free, ready := 0, 0, false
	for _, b := range m.Backends {
		if rank(b.State) < rank(best) {
			best = b.State
		}
		if !serving(b.State) {
			continue
		}
		if b.Context > 0 && (!ready || b.Context < h.context) {
			h.context = b.Context
		}
		ready = true
		slots += len(b.Slots)
		free += freeSlots(b)
	}
	if h.state = string(best); ready {
		h.slots, h.free = &slots, &free
	}
	return h
}

func memberHost(n mesh.NodeState, model string) fleetHost {
	h := fleetHost{node: n.Member.Name, addr: n.Member.Addr, state: "stale", age: n.Age, stale: true, remote: true}
	if n.Report == nil {
		return h
	}
	for _, m := range n.Report.Models {
		if m.Name != model {
			continue
		}
		h.stale, h.state, h.context, h.digest, h.waiting = false, string(engine.StateFailed), m.Context, m.Digest, m.Waiting
		h.hold = time.Duration(m.HoldMS) * time.Millisecond
		for _, b := range m.Backends {
			switch {
			case n.Quarantined:
				h.state = string(engine.StateSilent)
			case n.Report.Draining:
				h.state = string(engine.StateDraining)
			case b.Ready:
				slots, free := m.Slots()
				h.state, h.slots, h.free = string(engine.StateReady), &slots, &free
				return h
			case b.Loading:
				h.state = string(engine.StateLoading)
			}
		}
	}
	return h
}

// context is what every ready host can hold: a request may run on any of them. While none is ready, the smallest known.
func (m fleetModel) context() int {
	least := 0
	for _, ready := range []bool{true, false} {
		for _, h := range m.hosts {
			if (h.slots != nil || !ready) && h.context > 0 && (least == 0 || h.context < least) {
				least = h.context
			}
		}
		if least > 0 {
			return least
		}
	}
	return 0
}

// totals adds up what is known, nil where nothing is.
func (m fleetModel) totals() (slots, free *int) {
	for _, h := range m.hosts {
		slots, free = plus(slots, h.slots), plus(free, h.free)
	}
	return slots, free
}

func plus(sum, v *int) *int {
	if v == nil {
		return sum
	}
	n := *v
	if sum != nil {
		n += *sum
	}
	return &n
}

// Warnings names what is wrong between the models of the mesh: one name for different files is served as it is, since
// the owner may mean it, but answers will differ.
func (g *Gateway) Warnings() []status.Warning {
	fleet := g.fleet()
	warnings := append([]status.Warning{}, g.aliasWarnings(fleet)...)
	for _, m := range fleet {
		nodes := map[string][]string{}
		for _, h := range m.hosts {
			if h.digest != "" {
				nodes[h.digest] = append(nodes[h.digest], h.node)
			}
		}
		if len(nodes) < 2 {
			continue
		}
		var parts []string
		for _, digest := range slices.Sorted(maps.Keys(nodes)) {
			parts = append(parts, fmt.Sprintf("%s on %s", digest, strings.Join(nodes[digest], ", ")))
		}
		warnings = append(warnings, status.Warning{
			ID: "model_digest", Text: fmt.Sprintf("%s is not the same file everywhere: %s", shown(m.name), strings.Join(parts, "; ")),
			Fix: "use one file on all nodes, or give the other one a name of its own",
		})
	}
	return warnings
}

// wait is the milliseconds until one more request would have a slot there.
func (h fleetHost) wait() (ms int64, known bool) {
	switch {
	case h.free == nil || *h.slots == 0:
		return 0, false
	case *h.free > 0:
		return 0, true
	case h.hold <= 0:
		return 0, false
	}
	return rounded(h.hold * time.Duration(h.waiting+1) / time.Duration(*h.slots)), true
}

// rounded is d in milliseconds, to a tenth of a second: finer changes are no news.
func rounded(d time.Duration) int64 { return d.Round(100 * time.Millisecond).Milliseconds() }

// Report is this node's capacity as it stands, for whoever tells it to the mesh.
func (g *Gateway) Report() mesh.Report {
	var r mesh.Report
	for _, m := range g.engines() {
		r.Models = append(r.Models, g.told(m))
	}
	return r
}

// leastHold is the shortest time for which a request takes a slot, in milliseconds, that is told.
const leastHold = 50

// told is one model in the report.
func (g *Gateway) told(m engine.ModelState) mesh.Model {
	own := g.ownHost(m)
	told := mesh.Model{
		Name: m.Model.Name, Digest: own.digest, Context: own.context, Waiting: own.waiting, HoldMS: rounded(own.hold), KV: g.cfg.Caches.Figures(m.Model.Name),
	}
	if own.hold > 0 { // 0 would be unknown
		told.HoldMS = max(told.HoldMS, leastHold)
	}
	if wait, known := own.wait(); known {
		told.WaitMS = &wait
	}
	cards := make([]string, len(m.Backends))
	for i, b := range m.Backends {
		told.Backends = append(told.Backends, mesh.Backend{
			ID: b.ID, Slots: len(b.Slots), Free: freeSlots(b), Ready: serving(b.State), Waiting: b.Waiting,
			Loading: b.State == engine.StateLoading || b.State == engine.StateStarting || b.State == engine.StateRestarting,
		})
		if g.cfg.Cards != nil {
			cards[i] = g.cfg.Cards(m.Model.Accel, b.GPUs)
		}
	}
	g.rates.tell(&told, cards)
	for i := range told.Backends {
		g.busy(&told.Backends[i], told.Output)
	}
	return told
}
