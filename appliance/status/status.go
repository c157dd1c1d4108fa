// Package status holds the JSON types that leave the process: what the API answers, what top, the pages and --json
// read. It has no logic. Names and shapes are public and stable; docs/api.md describes them.
//
// Absent is not zero: a figure that is not known is null or left out, never 0.
package status

import "time"

// Node is GET /v1/status and status --json: this machine.
type Node struct {
	Node     string    `json:"node"`
	Version  string    `json:"version"`
	Network  string    `json:"network"`
	State    string    `json:"state"` // starting, ready, degraded, draining
	Models   []Model   `json:"models"`
	Members  []Member  `json:"members"`
	GPUs     []GPU     `json:"gpus"`
	Warnings []Warning `json:"warnings"`
}

// Model is one model served by this machine.
type Model struct {
	Name     string    `json:"name"`
	Digest   string    `json:"digest,omitempty"` // of the model file, when known
	Context  int       `json:"context_length"`
	Waiting  int       `json:"waiting"` // requests in this model's line
	Backends []Backend `json:"backends"`
}

// Backend is one engine process, or one foreign server.
type Backend struct {
	ID       string   `json:"id"`
	State    string   `json:"state"`              // starting, loading, ready, busy, silent, restarting, failed, draining
	Progress *float64 `json:"progress,omitempty"` // 0…1 while loading, absent when unknown
	Engine   string   `json:"engine"`             // build, "" before it is known
	Runner   string   `json:"runner"`
	Process  string   `json:"process,omitempty"` // container id or pid
	GPUs     []int    `json:"gpus,omitempty"`
	Restarts int      `json:"restarts"`
	Error    string   `json:"error,omitempty"` // why it is not ready, in the engine's last words
	Slots    []Slot   `json:"slots"`
	Change   *Change  `json:"change,omitempty"` // to another engine, when there is one on its way in or out
}

// Change is a backend on its way to another engine, while its own state is that of the one that serves.
type Change struct {
	State    string   `json:"state"`              // of the new one: starting, loading, failed (the one before serves on); draining = the old one finishes what it runs
	Progress *float64 `json:"progress,omitempty"` // 0…1 while loading, absent when unknown
	Error    string   `json:"error,omitempty"`    // why the new one failed
}

// Slot is one seat of a backend.
type Slot struct {
	ID      int    `json:"id"`
	State   string `json:"state"`             // free, busy, releasing (the engine has not let go yet)
	Session string `json:"session,omitempty"` // digest, never the client's own key
	Tokens  *int   `json:"tokens,omitempty"`
}

// Member is one node of the mesh.
type Member struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Version string `json:"version"`
	Addr    string `json:"addr"`
	AgeMS   int64  `json:"age_ms"`
}

// GPU is one card of this machine.
type GPU struct {
	Index  int    `json:"index"`
	Name   string `json:"name"`
	Accel  string `json:"accel"`
	Memory *int64 `json:"memory_bytes,omitempty"`
	Model  string `json:"model,omitempty"` // the model it belongs to
	Gfx    string `json:"gfx,omitempty"`   // AMD: gfx906
	PCI    string `json:"pci,omitempty"`

	Integrated bool     `json:"integrated,omitempty"` // part of the processor
	Unified    bool     `json:"unified,omitempty"`    // its memory is the machine's own
	Display    bool     `json:"display,omitempty"`    // a screen is attached
	Instances  []string `json:"instances,omitempty"`  // it is cut into these (MIG)

	Planned *int64 `json:"planned_bytes,omitempty"` // what the models on it were expected to take, at the most

	// How it is at this moment; absent where the driver does not tell.
	Used     *int64   `json:"used_bytes,omitempty"` // of its memory, by all programs
	Busy     *float64 `json:"busy,omitempty"`       // 0…1
	Celsius  *float64 `json:"celsius,omitempty"`
	Watts    *float64 `json:"watts,omitempty"`
	CapWatts *float64 `json:"cap_watts,omitempty"` // the power limit set now
	ByHeat   *bool    `json:"throttled_by_heat,omitempty"`
	ByPower  *bool    `json:"throttled_by_power,omitempty"`
}

// ModelFile is one model file on this machine's disk, and what would become of it here: models ls --all --json.
type ModelFile struct {
	Path         string  `json:"path"` // of several shards the first
	Kind         string  `json:"kind"` // chat, embedding, rerank, projector; "" = unknown
	Architecture string  `json:"architecture"`
	Quantisation string  `json:"quantisation"`
	Size         int64   `json:"size"`                // bytes of all shards
	Context      int     `json:"context_length"`      // tokens it was trained for, 0 = unknown
	Projector    string  `json:"projector,omitempty"` // the file beside it that goes with it
	Fits         *bool   `json:"fits"`                // null = not known
	GPUs         [][]int `json:"gpus,omitempty"`      // of each backend that would be proposed
	Backends     int     `json:"backends"`
	Parallel     int     `json:"parallel"` // slots of each backend
	SlotContext  int     `json:"context"`  // tokens of each slot
	Text         string  `json:"text"`     // the proposal, or the reason why there is none
	Error        string  `json:"error,omitempty"`
}

// Warning is something the owner should know and can mend.
type Warning struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	Fix  string `json:"fix"`
}

// Request is one row of GET /api/requests. Pointers are null while unknown.
type Request struct {
	ID              string    `json:"id"`
	Time            time.Time `json:"time"`
	Entry           string    `json:"entry"`
	Client          string    `json:"client,omitempty"` // the device or address it came from, at the entry node, where that is known
	Node            string    `json:"node"`
	Backend         string    `json:"backend"`
	Path            string    `json:"path"`
	Model           string    `json:"model"`
	Alias           string    `json:"alias"` // the client's name for it, "" = the model's own
	Session         string    `json:"session"`
	KeySource       string    `json:"key_source"` // the header's or field's name, "prefix" or "none"
	Reason          string    `json:"reason"`     // as X-Viiwork-Route
	Compacted       bool      `json:"compacted"`  // the conversation's history was rewritten to a shorter one: no cache helps
	State           string    `json:"state"`      // queued, prefill, generating, done
	PromptTokens    *int      `json:"prompt_tokens"`
	CachedTokens    *int      `json:"cached_tokens"`
	PromptDone      *int      `json:"prompt_done_tokens,omitempty"` // of the prompt, computed or cached so far; while it runs here
	OutputTokens    *int      `json:"output_tokens"`
	QueueMS         *float64  `json:"queue_ms"`
	TTFTMS          *float64  `json:"ttft_ms"`
	PredictedTTFTMS *float64  `json:"predicted_ttft_ms"`
	PrefillTPS      *float64  `json:"prefill_tps,omitempty"`
	DecodeTPS       *float64  `json:"decode_tps,omitempty"`
	// While it waits in a node's line: which node's, its place from 1, and how long that will probably be.
	WaitsAt        string   `json:"waits_at,omitempty"`
	Place          *int     `json:"place,omitempty"`
	ExpectedWaitMS *float64 `json:"expected_wait_ms,omitempty"`
	Plan           *Plan    `json:"plan,omitempty"` // of GET /api/requests/{id} only; the node where the request came in has it
	Status         int      `json:"status"`         // HTTP status, 0 while running, 499 when the client left first
	Error          string   `json:"error"`
	Task           string   `json:"task"`
}

// Plan is why a request went where it went, as it was decided last.
type Plan struct {
	Policy       string      `json:"policy"`        // cost, classic
	PromptTokens int         `json:"prompt_tokens"` // as estimated; 0 = unknown
	Chosen       Chosen      `json:"chosen"`
	Candidates   []Candidate `json:"candidates"` // the cheapest first; none under classic
}

// Chosen is what a plan came to.
type Chosen struct {
	Node    string `json:"node"`    // "" = whichever frees a slot first
	Backend string `json:"backend"` // "" = any of the node
	Wait    bool   `json:"wait"`    // in the node's line
	Reason  string `json:"reason"`
}

// Candidate is a backend that could have answered.
type Candidate struct {
	Node     string  `json:"node"`
	Backend  string  `json:"backend"`
	Free     int     `json:"free"`        // slots
	Held     int     `json:"held_tokens"` // of the prompt
	Fetch    string  `json:"fetch,omitempty"`
	Measured bool    `json:"measured"` // its prefill rate is its own, not the others'
	Terms    Terms   `json:"terms"`
	Total    float64 `json:"total"`
}

// Terms are the parts of a candidate's cost, in seconds.
type Terms struct {
	Prefill float64 `json:"prefill"`
	Decode  float64 `json:"decode"`
	Stall   float64 `json:"stall"`
	Shadow  float64 `json:"shadow"`
	Queue   float64 `json:"queue"`
	Load    float64 `json:"load"`
	Reserve float64 `json:"reserve"`
	RTT     float64 `json:"rtt"`
}

// Session is one row of GET /api/sessions: where a conversation is at home.
type Session struct {
	Session   string `json:"session"` // digest; "" = it names none and is known by its prompt
	Model     string `json:"model"`
	Node      string `json:"node"`
	Backend   string `json:"backend"`
	Tokens    *int   `json:"tokens"` // its last prompt and answer, null while unknown
	IdleMS    int64  `json:"idle_ms"`
	KeySource string `json:"key_source"` // as in Request
	// Replicas are the names of the nodes that have its cache in their stores, at whatever turn.
	Replicas []string `json:"replicas"`
}

// Cluster is GET /v1/cluster: the mesh as the answering node sees it.
type Cluster struct {
	Members  []Member       `json:"members"`
	Models   []ClusterModel `json:"models"`
	Aliases  []Alias        `json:"aliases"`
	Rollout  *Rollout       `json:"rollout,omitempty"` // the last one, while it is of interest
	Warnings []Warning      `json:"warnings"`
}

// ClusterModel is a model and the nodes that have it.
type ClusterModel struct {
	Name  string   `json:"name"`
	Hosts []string `json:"hosts"` // names of nodes
}

// Alias is a second name of a model, known to the whole mesh.
type Alias struct {
	Name    string    `json:"name"`
	Target  string    `json:"target"`         // the model
	Prev    string    `json:"prev,omitempty"` // the model before
	Version uint64    `json:"version"`        // changes of the name so far, 0 = proposed by a configuration
	Node    string    `json:"node"`           // who wrote it: a node's name, the id of one that is not known
	Time    time.Time `json:"time"`
	State   string    `json:"state"` // ok; shadowed (a model has the name); dangling (no node has the model); removed
}

// Rotation is one line of what POST /api/secret/rotate answers: a step at a member, the end, or why there was none.
type Rotation struct {
	Member string   `json:"member,omitempty"`
	Step   string   `json:"step,omitempty"`  // ask, accept, use, done or drop; resume: what the member began is finished
	Fault  string   `json:"fault,omitempty"` // why the member does not go along
	Done   *Rotated `json:"done,omitempty"`  // the last line of a replacement that succeeded
	Error  string   `json:"error,omitempty"` // the last line of one that did not
}

// Rotated is who has the mesh's new secret, by name.
type Rotated struct {
	Generation uint64   `json:"generation"`
	Members    []string `json:"members"`        // the node that was asked comes first
	Away       []string `json:"away,omitempty"` // lost to gossip, without the new secret
	Left       []string `json:"left,omitempty"` // switched off in peace, without it
}
