package route

import (
	"slices"
	"time"
)

// Snapshot is how one model stands on all nodes that have it.
type Snapshot struct {
	Nodes []Node
}

// Node is one machine, as far as the model is concerned.
type Node struct {
	ID    string
	Name  string // the owner's: what a client may ask for
	Local bool   // the node that decides

	Stale       bool // has not spoken lately: its figures are none
	Quarantined bool
	Draining    bool // takes nothing new
	Full        bool // has refused a request since it last spoke
	LineFull    bool // takes nobody into its line
	// Ahead counts the requests on their way to the node of which its figures cannot know yet.
	Ahead    int
	Waiting  int           // who stands in its line, and who is on the way there
	Hold     time.Duration // how long a request takes a slot there as a rule; 0 = unknown
	Backends []Backend
}

// Backend is one engine.
type Backend struct {
	ID          string
	Ready       bool
	Slots, Free int
}

// Request is what one client wants.
type Request struct {
	Host   string   // id of the only node that will do; "" = any
	Prefer []string // names of the nodes to use if they have a free slot, in order
	Home   string   // id of the node the conversation ran on last; "" = unknown
	Tried  []string // ids of the nodes that could not take it
	Seed   uint64   // any number that differs between requests: equals take turns by it
}

// Reason says in one word why a request goes where it goes.
type Reason string

const (
	Only   Reason = "only"   // there is one backend
	Pinned Reason = "pinned" // the client named the node
	Home   Reason = "home"   // back where the conversation was
	Move   Reason = "move"   // somewhere else than where it was
	Cold   Reason = "cold"   // it was nowhere yet
	Wait   Reason = "wait"   // waits for a slot where the conversation was
)

// Plan is where a request goes. Without a node and without Wait nobody can take it, now or soon, and Reason is "".
type Plan struct {
	Node   string // id; "" while waiting = no line takes it
	Local  bool   // Node is the one that decides
	Wait   bool   // all that would do are full: it waits in the line of Node
	Reason Reason
}

// Pick plans one request: the node it is pinned to; else the first preferred one with a free slot; else the local one
// if it has; else the one with the most; else to wait, at its home or where the wait is shortest. Between equals the
// home goes first, else they take turns.
func Pick(s Snapshot, r Request) Plan {
	nodes := usable(s, r)
	if len(nodes) == 0 {
		return Plan{}
	}
	if n := choose(nodes, r); n != nil {
		return Plan{Node: n.ID, Local: n.Local, Reason: reason(nodes, n, r)}
	}
	p := Plan{Wait: true, Reason: Wait}
	if n := shortest(nodes, r); n != nil {
		p.Node, p.Local = n.ID, n.Local
		if why := reason(nodes, n, r); why != Home {
			p.Reason = why
		}
	}
	return p
}

// usable leaves the nodes that can take the request once they have a free slot.
func usable(s Snapshot, r Request) []*Node {
	var nodes []*Node
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Serves() && (r.Host == "" || r.Host == n.ID) && !slices.Contains(r.Tried, n.ID) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func choose(nodes []*Node, r Request) *Node {
	for _, name := range r.Prefer {
		for _, n := range nodes {
			if n.Name == name && n.Free() > 0 {
				return n
			}
		}
	}
	for _, n := range nodes {
		if n.Local && n.Free() > 0 {
			return n
		}
	}
	return roomiest(nodes, r)
}

// roomiest is the node with the most free slots, nil if all are full.
func roomiest(nodes []*Node, r Request) *Node {
	most := 1
	var best []*Node
	for _, n := range nodes {
		switch free := n.Free(); {
		case free > most:
			most, best = free, []*Node{n}
		case free == most:
			best = append(best, n)
		}
	}
	if len(best) == 0 {
		return nil
	}
	for _, n := range best {
		if n.ID == r.Home {
			return n
		}
	}
	return best[r.Seed%uint64(len(best))]
}

func reason(nodes []*Node, n *Node, r Request) Reason {
	switch {
	case r.Host != "":
		return Pinned
	case r.Home == n.ID:
		return Home
	case r.Home != "":
		return Move
	case len(nodes) == 1 && n.ready() == 1:
		return Only
	}
	return Cold
}

// Serves tells whether the node takes requests, now or when a slot frees.
func (n *Node) Serves() bool {
	return !n.Stale && !n.Quarantined && !n.Draining && n.ready() > 0
}

func (n *Node) ready() int {
	ready := 0
	for _, b := range n.Backends {
		if b.Ready {
			ready++
		}
	}
	return ready
}

// Free is how many requests the node has room for, at least by what is known.
func (n *Node) Free() int {
	if !n.Serves() || n.Full {
		return 0
	}
	free := -n.Ahead
	for _, b := range n.Backends {
		if b.Ready {
			free += b.Free
		}
	}
	return max(0, free)
}
