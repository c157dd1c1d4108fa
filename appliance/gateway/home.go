package gateway

import "viiwork/appliance/mesh"

// homeAt is the place of a conversation in the mesh, as far as this entry knows.
type homeAt struct {
	known   bool
	node    string // id
	backend string
}

// find tells what is known of the conversation and its prompt at this moment.
func (k *call) find() mesh.Found { return k.g.known.Find(k.model, k.session, k.begins.Links) }

// findHome is where the conversation probably is cached: where it ran last, or who holds its prompt.
func (k *call) findHome() homeAt {
	k.found = k.find()
	return k.homeOf(k.found)
}

func (k *call) homeOf(found mesh.Found) homeAt {
	if !found.Known || k.g.cfg.Forget {
		return homeAt{}
	}
	at := found.Home
	if at.Node == "" {
		at.Node = k.g.id()
	}
	return homeAt{true, at.Node, at.Backend}
}

// atHome is the backend of this node that a home is, "" if it is none.
func (k *call) atHome(home homeAt) string {
	if home.known && home.node == k.g.id() {
		return home.backend
	}
	return ""
}

// went notes where the conversation runs from now on.
func (k *call) went(node, backend string) {
	if node == k.g.id() {
		node = ""
	}
	k.g.known.Went(k.model, k.session, k.source, mesh.Spot{Node: node, Backend: backend})
}
