package gateway

import (
	"slices"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/appliance/route"
	"viiwork/engine"
)

// pick plans the request by how all stand now. A place at a member is taken in the same act; arrived gives it up.
func (k *call) pick() (plan route.Plan, to mesh.Member, arrived func()) {
	a := &k.g.ahead
	a.mu.Lock()
	defer a.mu.Unlock()
	members := k.g.members()
	plan = route.Pick(k.survey(members), route.Request{
		Host: k.host, Prefer: k.prefer, Home: k.homeNode, Tried: k.tried, Seed: k.g.seed.Add(1),
	})
	if plan.Local || plan.Wait {
		return plan, to, nil
	}
	for _, n := range members {
		if n.Member.ID == plan.Node {
			return plan, n.Member, a.add(n, k.model)
		}
	}
	return plan, to, nil
}

// survey puts together how the request's model stands everywhere. It wants the lock of ahead held.
func (k *call) survey(members []mesh.NodeState) route.Snapshot {
	var s route.Snapshot
	if n, ok := k.here(); ok {
		s.Nodes = append(s.Nodes, n)
	}
	for _, m := range members {
		if n, ok := there(m, k.model); ok {
			n.Ahead = k.g.ahead.count(m, k.model)
			n.Full = n.Full || time.Now().Before(k.bounced[n.ID].until)
			s.Nodes = append(s.Nodes, n)
		}
	}
	return s
}

// here is this node, without the backends that have failed the request.
func (k *call) here() (route.Node, bool) {
	m, ok := k.g.local(k.model)
	if !ok {
		return route.Node{}, false
	}
	n := route.Node{ID: k.g.id(), Name: k.g.cfg.Node, Local: true}
	for _, b := range m.Backends {
		if slices.Contains(k.triedHere, b.ID) {
			continue
		}
		n.Backends = append(n.Backends, route.Backend{ID: b.ID, Ready: serving(b.State), Slots: len(b.Slots), Free: freeSlots(b)})
	}
	return n, true
}

// local is a model of this node.
func (g *Gateway) local(model string) (engine.ModelState, bool) {
	for _, m := range g.cfg.Engine.Snapshot() {
		if m.Model.Name == model {
			return m, true
		}
	}
	return engine.ModelState{}, false
}

func freeSlots(b engine.BackendState) int {
	free := 0
	for _, s := range b.Slots {
		if s.State == "free" {
			free++
		}
	}
	return free
}

// there is a member, if it has told lately that it has the model.
func there(m mesh.NodeState, model string) (route.Node, bool) {
	if m.Report == nil {
		return route.Node{}, false
	}
	at := slices.IndexFunc(m.Report.Models, func(r mesh.Model) bool { return r.Name == model })
	if at < 0 {
		return route.Node{}, false
	}
	n := route.Node{ID: m.Member.ID, Name: m.Member.Name, Quarantined: m.Quarantined, Draining: m.Report.Draining}
	for _, b := range m.Report.Models[at].Backends {
		n.Backends = append(n.Backends, route.Backend{ID: b.ID, Ready: b.Ready, Slots: b.Slots, Free: b.Free})
	}
	if told, ok := m.Model(model); ok { // it knows of refusals, which take away what the report says is free
		_, said := m.Report.Models[at].Slots()
		_, free := told.Slots()
		n.Full = free < said && !n.Draining
	}
	return n, true
}
