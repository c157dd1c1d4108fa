package gateway

import "strings"

// homeAt is the place of a conversation in the mesh, as this entry remembers it.
type homeAt struct {
	known   bool
	node    string // id, "" = this node while it is alone
	backend string
}

// findHome is where the conversation ran last: its prompt is probably still cached there.
func (k *call) findHome() homeAt {
	if at := k.g.homeNodes.find(k.model, k.session); at != "" {
		node, backend, _ := strings.Cut(at, " ") // an id has no space
		return homeAt{true, node, backend}
	}
	if backend := k.g.homes.find(k.model, k.session); backend != "" {
		return homeAt{true, k.g.id(), backend}
	}
	return homeAt{}
}

// setHome remembers where the conversation runs.
func (k *call) setHome(node, backend string) {
	if node != "" {
		k.g.homeNodes.set(k.model, k.session, node+" "+backend)
	}
}
