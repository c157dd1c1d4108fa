package route

// Plan is where a request goes, and why.
type Plan struct {
	Node    string // id; "" while waiting = in no node's line
	Backend string // while waiting: the only one that will do, "" = any of the node
	Local   bool   // Node is the one that decides
	Wait    bool   // it waits in the line of Node
	Reason  Reason
	// Fetch is the cache to bring along, "" = none: Import from the node's own disk, Pull from node From.
	Fetch Reason
	From  string

	// Candidates is every backend that was considered, with what it would cost: none in Classic.
	Candidates []Candidate
}

// None tells that nobody can take the request, now or soon.
func (p Plan) None() bool { return p.Reason == "" }

// Chosen is the candidate that the plan is for: where it names no backend, the cheapest one of the node. False = the plan
// goes to none, or lists none.
func (p Plan) Chosen() (c Candidate, ok bool) {
	for _, o := range p.Candidates {
		if o.Node == p.Node && (p.Backend == "" || p.Backend == o.Backend) && (!ok || o.Total < c.Total) {
			c, ok = o, true
		}
	}
	return c, ok
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
	Import Reason = "import" // its cache comes from the disk of the node
	Pull   Reason = "pull"   // its cache comes from another node
)

// Candidate is what a backend would cost a request: seconds, of which the least wins.
type Candidate struct {
	Node, Backend string
	Free          int  // requests it has room for
	Held          int  // tokens of the prompt that need not be computed there, moved ones included
	Measured      bool // how fast it computes prompts is known, not taken from others
	Fetch         Reason

	Terms
	Total float64

	node, at int32 // in the snapshot
	room     int32 // of the node
	home     bool
}

// Terms are the parts of a cost, in seconds.
type Terms struct {
	Prefill float64 // to compute what is not held, and to move what is
	Decode  float64 // to generate the answer, by its weight
	Stall   float64 // by which running answers are held up meanwhile
	Shadow  float64 // what others lose by the time taken, in a busy mesh
	Queue   float64 // until a slot frees, and for who is before
	Load    float64 // to be expected of the sessions that live there
	Reserve float64 // for the slot of a session that will be back
	RTT     float64 // for the way to another node
}

func (t Terms) sum() float64 {
	return t.Prefill + t.Decode + t.Stall + t.Shadow + t.Queue + t.Load + t.Reserve + t.RTT
}

// reason is why the request goes to n, or waits there.
func reason(s *Snapshot, n *Node, backend string, r *Request) Reason {
	switch {
	case r.Host != "":
		return Pinned
	case r.Home == n.ID && !r.Forget:
		return Home
	case r.Home != "" && !r.Forget:
		return Move
	case alone(s, n, r):
		return Only
	}
	return Cold
}

// alone tells whether n has the only backend that could do.
func alone(s *Snapshot, n *Node, r *Request) bool {
	for i := range s.Nodes {
		if other := &s.Nodes[i]; other != n && other.usable(r) {
			return false
		}
	}
	return n.ready() == 1
}
