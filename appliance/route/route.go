package route

import (
	"slices"
	"time"
)

// Snapshot is how one model stands on all nodes that have it, in the eyes of one request.
type Snapshot struct {
	Nodes []Node

	Output  float64       // mean tokens of an answer; 0 = unknown
	Think   time.Duration // mean time a session takes between an answer and its next request; 0 = unknown
	Cache   Cache         // what moving caches costs; zero = caches are not moved
	Weights *Weights      // nil = the usual ones; others are for measuring what a term is worth
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
	Ahead   int
	Waiting int           // who stands in its line, and who is on the way there
	Hold    time.Duration // how long a request takes a slot there as a rule; 0 = unknown
	RTT     time.Duration // to the node and back; 0 = unknown
	// Score is what Classic compares: seconds from the start of a request to its first token, per prompt token;
	// 0 = none yet.
	Score float64

	Replica int           // tokens of the request's prompt in a replica on its disk
	Unsaved int           // and in an engine, from where they are written to its disk once somebody asks, if that pays
	Link    float64       // bytes a second at which it sends caches to others; 0 = it does not
	Sending time.Duration // how long what it has to send already will take
	Kind    string        // of its caches: they can be moved between nodes of one kind

	Backends []Backend
}

// Backend is one engine. Of its figures zero means unknown, or none, which is then the same.
type Backend struct {
	ID          string
	Ready       bool
	Slots, Free int

	Prefill  float64 // prompt tokens a second when it computes one prompt
	Decode   float64 // tokens a second of a single stream
	Slowdown float64 // how much longer a token takes per further stream, as a share

	Waiting     int           // who stands in the node's line and accepts only this one
	Outstanding int           // prompt tokens it still has to compute
	Decoding    int           // streams it generates
	FreeIn      time.Duration // until a slot frees, by the owner's guess ([FreeIn]), if none is free
	Residents   int           // sessions whose home it is and that were active lately
	Idle        int           // those of them that have no request running

	// Held is how many tokens of this request's prompt it holds, by all that is known.
	Held int
}

// Request is what one client wants.
type Request struct {
	Policy Policy
	Host   string   // id of the only node that will do; "" = any
	Prefer []string // names of the nodes to use if they have a free slot, in order
	Tried  []string // ids of the nodes that could not take it
	Seed   uint64   // any number that differs between requests: equals take turns by it

	Prompt      int    // its tokens, estimated; 0 = unknown
	Home        string // id of the node the conversation ran on last; "" = unknown
	HomeBackend string // and which backend; "" = unknown
	Forget      bool   // home and what backends hold shall not count: the owner has switched affinity off
	Flat        bool   // nor, in Classic, shall scores

	// Stands is the id of the node in whose line it waits already, "" = in none; Place is who is before it there.
	Stands string
	Place  int
	// Left is the time until it is refused, 0 = never: in its last moments it waits for its home no more if a slot is
	// free elsewhere.
	Left time.Duration
}

// Policy is how to choose.
type Policy string

const (
	Cost    Policy = "cost" // also what any other word means
	Classic Policy = "classic"
)

// usable tells whether the node can take the request once it has a free slot.
func (n *Node) usable(r *Request) bool {
	return n.Serves() && (r.Host == "" || r.Host == n.ID) && !slices.Contains(r.Tried, n.ID)
}

// Serves tells whether the node takes requests, now or when a slot frees.
func (n *Node) Serves() bool {
	return !n.Stale && !n.Quarantined && !n.Draining && n.ready() > 0
}

func (n *Node) ready() int {
	ready := 0
	for i := range n.Backends {
		if n.Backends[i].Ready {
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
	free := 0
	for i := range n.Backends {
		if b := &n.Backends[i]; b.Ready {
			free += b.free()
		}
	}
	return max(0, free-max(0, n.Ahead))
}

func (n *Node) slots() int {
	slots := 0
	for i := range n.Backends {
		if b := &n.Backends[i]; b.Ready {
			slots += b.slots()
		}
	}
	return slots
}

// maxSlots bounds what is believed of one backend.
const maxSlots = 1 << 16

func (b *Backend) slots() int { return min(max(0, b.Slots), maxSlots) }
func (b *Backend) free() int  { return min(max(0, b.Free), b.slots()) }
