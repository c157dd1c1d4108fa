package gateway

import (
	"slices"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/appliance/route"
	"viiwork/engine"
)

// look plans anew for all who look for a slot of the model, in the order in which they came. A seat that it finds is
// taken, or counted, in the same act.
func (g *Gateway) look(model string) {
	g.lineup.mu.Lock()
	defer g.lineup.mu.Unlock()
	members := g.members()
	for _, p := range g.lineup.models[model] {
		if p.offer == nil && !p.tries {
			g.plan(p, members)
		}
	}
}

// plan wants the lock of the lineup held.
func (g *Gateway) plan(p *place, members []mesh.NodeState) {
	k := p.call
	p.plan = route.Pick(k.survey(members), route.Request{
		Host: k.wanted(), Prefer: k.prefer, Home: k.home.node, HomeBackend: k.home.backend, Tried: k.tried, Seed: g.seed.Add(1),
	})
	switch {
	case p.plan.None():
		p.tell()
		return
	case p.plan.Wait, p.stands && p.standsAt == p.plan.Node: // its line is served before anybody sees a free slot there
		return
	case p.plan.Local:
		t, err := g.cfg.Engine.Queue(k.wish(true))
		if err != nil { // somebody was quicker
			p.plan.Wait = true
			return
		}
		p.offer = &offer{ticket: t}
	default:
		at := slices.IndexFunc(members, func(m mesh.NodeState) bool { return m.Member.ID == p.plan.Node })
		p.offer = &offer{member: members[at].Member, reason: p.plan.Reason, asked: g.lineup.ahead.add(members[at], k.model, false)}
	}
	p.tell()
}

// wanted is the id of the only node that will do, "" = any. A node that is alone has none.
func (k *call) wanted() string {
	if k.pinned {
		return k.g.id()
	}
	return k.host
}

// survey puts together how the request's model stands everywhere. It wants the lock of the lineup held.
func (k *call) survey(members []mesh.NodeState) route.Snapshot {
	var s route.Snapshot
	now := time.Now()
	if n, ok := k.here(); ok {
		n.LineFull = now.Before(k.shut[n.ID].until)
		s.Nodes = append(s.Nodes, n)
	}
	if k.pinned {
		return s
	}
	for _, m := range members {
		if n, ok := there(m, k.model); ok {
			seats, places := k.g.lineup.ahead.count(m, k.model)
			n.Ahead, n.Waiting = seats, n.Waiting+places
			away := now.Before(k.bounced[n.ID].until)
			n.Full = n.Full || away
			n.LineFull = away || now.Before(k.shut[n.ID].until)
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
	n := route.Node{ID: k.g.id(), Name: k.g.cfg.Node, Local: true, Waiting: m.Waiting, Hold: m.Hold}
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
	told := m.Report.Models[at]
	n := route.Node{
		ID: m.Member.ID, Name: m.Member.Name, Quarantined: m.Quarantined, Draining: m.Report.Draining,
		Waiting: told.Waiting, Hold: time.Duration(told.HoldMS) * time.Millisecond,
	}
	for _, b := range told.Backends {
		n.Backends = append(n.Backends, route.Backend{ID: b.ID, Ready: b.Ready, Slots: b.Slots, Free: b.Free})
	}
	if known, ok := m.Model(model); ok { // it knows of refusals, which take away what the report says is free
		_, said := told.Slots()
		_, free := known.Slots()
		n.Full = free < said && !n.Draining
	}
	return n, true
}
