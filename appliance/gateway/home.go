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

// homeHere is the backend of this node that the conversation is at home at, "" if there is none.
func (k *call) homeHere() string {
	if k.home.known && k.home.node == k.g.id() {
		return k.home.backend
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
