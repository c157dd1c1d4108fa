package gateway

import (
	"slices"

	"viiwork/appliance/mesh"
	"viiwork/engine"
)

// Mesh is what a gateway needs of the mesh its node is in. All of it is there.
type Mesh struct {
	ID       string                    // this node's
	Table    *mesh.Table               // how the others stand
	Client   *mesh.Client              // carries requests to them
	Verifier *mesh.Verifier            // checks what they send
	Desk     *mesh.Desk[*engine.Lease] // lends them this node's slots
	// HostName is this device's own name on its network, accepted in the Host header; "" = none.
	HostName func() string
}

// Join makes the gateway one of a mesh. Before it is called the node is alone and answers from its own models only.
func (g *Gateway) Join(m Mesh) { g.joined.Store(&m) }

// id is this node's in the mesh, its name while it is alone.
func (g *Gateway) id() string {
	if m := g.joined.Load(); m != nil {
		return m.ID
	}
	return g.cfg.Node
}

// members tells how the other nodes stand, none while this one is alone.
func (g *Gateway) members() []mesh.NodeState {
	if m := g.joined.Load(); m != nil {
		return m.Table.Snapshot()
	}
	return nil
}

// member tells how one of them stands.
func (g *Gateway) member(id string) (mesh.NodeState, bool) {
	for _, m := range g.members() {
		if m.Member.ID == id {
			return m, true
		}
	}
	return mesh.NodeState{}, false
}

// membersChanged is closed once members gives something else; while the node is alone, never.
func (g *Gateway) membersChanged() <-chan struct{} {
	if m := g.joined.Load(); m != nil {
		return m.Table.Changed()
	}
	return nil
}

// elsewhere tells whether another node has the model, or had it when it last spoke.
func (g *Gateway) elsewhere(model string) bool {
	return slices.ContainsFunc(g.members(), func(n mesh.NodeState) bool { return slices.Contains(n.Known, model) })
}
