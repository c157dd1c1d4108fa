package status

import "time"

// Board is the mesh as one node's pages show it: flat rows of a few kinds, each with a key that stays its own. GET /api/board
// answers with it and GET /api/events with its changes. Pointers are null, and texts empty, while unknown.
type Board struct {
	Node    string    `json:"node"` // whose picture it is
	Version string    `json:"version"`
	Network string    `json:"network"`
	State   string    `json:"state"`
	Open    bool      `json:"open"` // anybody on the network may join the mesh
	Time    time.Time `json:"time"`

	Totals   []Total        `json:"totals"` // one row
	Machines []Machine      `json:"machines"`
	Cards    []Card         `json:"cards"`
	Engines  []Engine       `json:"engines"`
	Seats    []Seat         `json:"slots"`
	Served   []Served       `json:"models"`
	Requests []BoardRequest `json:"requests"` // the newest first
	Pairs    []BoardPair    `json:"pairs"`
	Moves    []BoardMoves   `json:"moves"`
	Firsts   []BoardFirst   `json:"firsts"`
	Uses     []BoardUse     `json:"uses"`
	Turns    []BoardTurn    `json:"turns"` // of a roll-out that goes on, or left somebody as it was
	Aliases  []BoardAlias   `json:"aliases"`
	Warnings []BoardWarning `json:"warnings"`
}

// Total sums the mesh up: over the machines that tell, which are Told of Machines.
type Total struct {
	Key       string   `json:"key"`
	Machines  int      `json:"machines"`
	Alive     int      `json:"alive"`
	Told      int      `json:"told"`
	Slots     int      `json:"slots"`
	Free      int      `json:"free"`
	Running   int      `json:"running"`
	Queued    int      `json:"queued"`
	Refused   int      `json:"refused"`    // of the requests that are remembered
	OutputTPS *float64 `json:"output_tps"` // of what runs now
	Watts     *float64 `json:"watts"`      // of the cards that tell
	KWhToday  *float64 `json:"kwh_today"`
	Warnings  int      `json:"warnings"`
}

// Machine is one node. What only it can tell is null while it does not.
type Machine struct {
	Key      string     `json:"key"` // its name
	Name     string     `json:"name"`
	Self     bool       `json:"self"`
	State    string     `json:"state"` // as Member
	Version  string     `json:"version"`
	Old      bool       `json:"old"` // another node runs a newer release
	Addr     string     `json:"addr"`
	URL      string     `json:"url"`   // of its own pages, "" = not known
	Heard    *time.Time `json:"heard"` // when it last told its capacity, by the answering node's clock
	Told     bool       `json:"told"`  // it has told what only it can, lately
	Started  *time.Time `json:"started"`
	SkewMS   *int64     `json:"skew_ms"` // how far its clock is ahead of the answering node's, to half a second
	RTTMS    *float64   `json:"rtt_ms"`
	Path     string     `json:"path"`     // on a tailnet, from the answering node: direct, relayed
	DNSName  string     `json:"dns_name"` // on a tailnet: the device's full name
	Slots    *int       `json:"slots"`
	Free     *int       `json:"free"`
	Running  *int       `json:"running"`
	Queued   *int       `json:"queued"`
	Models   *int       `json:"models"`
	Cards    *int       `json:"cards"`
	Used     *int64     `json:"used_bytes"` // of its cards' memory, where all tell
	Memory   *int64     `json:"memory_bytes"`
	Watts    *float64   `json:"watts"` // of the cards that tell
	KWhToday *float64   `json:"kwh_today"`
	Warnings *int       `json:"warnings"`
}

// Card is one GPU.
type Card struct {
	Key      string   `json:"key"`
	Node     string   `json:"node"`
	Self     bool     `json:"self"`
	Index    int      `json:"index"`
	Accel    string   `json:"accel"`
	Name     string   `json:"name"`
	Model    string   `json:"model"`
	Planned  *int64   `json:"planned_bytes"` // what its model was expected to take
	Used     *int64   `json:"used_bytes"`    // by all programs
	Memory   *int64   `json:"memory_bytes"`
	Busy     *float64 `json:"busy"`
	Celsius  *float64 `json:"celsius"`
	Watts    *float64 `json:"watts"`
	CapWatts *float64 `json:"cap_watts"`
	Capped   bool     `json:"capped"` // its power limit holds it back, as the driver says, else as it takes what it may
	Hot      bool     `json:"hot"`    // it slows down for heat
}

// Engine is one backend.
type Engine struct {
	Key        string   `json:"key"`
	Node       string   `json:"node"`
	Self       bool     `json:"self"`
	Backend    string   `json:"backend"`
	Model      string   `json:"model"`
	State      string   `json:"state"`
	Progress   *float64 `json:"progress"`
	Error      string   `json:"error"`
	Build      string   `json:"build"`
	Cards      string   `json:"cards"` // indices
	Restarts   *int     `json:"restarts"`
	Slots      *int     `json:"slots"`
	Free       *int     `json:"free"`
	Decoding   *int     `json:"decoding"`
	Context    *int     `json:"context"`
	PrefillTPS *float64 `json:"prefill_tps"`
	DecodeTPS  *float64 `json:"decode_tps"` // of a single stream
	Residents  *int     `json:"residents"`
}

// Seat is one slot of an engine.
type Seat struct {
	Key     string `json:"key"`
	Engine  string `json:"engine"` // the key of its engine
	Node    string `json:"node"`
	Backend string `json:"backend"`
	Model   string `json:"model"`
	Slot    int    `json:"slot"`
	State   string `json:"state"` // idle, held (idle, with a conversation's cache), prefill, decode, busy (one of the two), releasing, unknown
	Session string `json:"session"`
	Request string `json:"request"` // its id, where it is certain
	Tokens  *int   `json:"tokens"`
}

// Served is a model in the mesh.
type Served struct {
	Key      string   `json:"key"`
	Name     string   `json:"name"`
	Aliases  string   `json:"aliases"`
	Hosts    string   `json:"hosts"`
	State    string   `json:"state"` // the best of its engines
	Progress *float64 `json:"progress"`
	Slots    *int     `json:"slots"`
	Free     *int     `json:"free"`
	Context  *int     `json:"context"`
	Queued   *int     `json:"queued"`
	OldestMS *int64   `json:"oldest_ms"` // how long the one waits that has waited longest, to a second
	Refused  *int     `json:"refused"`   // for want of a slot, of the requests that are remembered
}

// BoardRequest is a request, joined from its rows at the node it came in by and the one that runs it.
type BoardRequest struct {
	Key       string    `json:"key"` // its id
	ID        string    `json:"id"`
	Time      time.Time `json:"time"`
	Live      bool      `json:"live"`
	Self      bool      `json:"self"` // it came in by the answering node, or runs there
	State     string    `json:"state"`
	Entry     string    `json:"entry"`
	From      string    `json:"from"` // the device or address it came from
	Node      string    `json:"node"`
	Backend   string    `json:"backend"`
	Model     string    `json:"model"`
	Alias     string    `json:"alias"`
	Session   string    `json:"session"`
	Task      string    `json:"task"`
	Reason    string    `json:"reason"`
	Class     string    `json:"class"` // as First
	Compacted bool      `json:"compacted"`
	Prompt    *int      `json:"prompt_tokens"`
	Cached    *int      `json:"cached_tokens"`
	Done      *int      `json:"prompt_done"` // tokens of the prompt that are computed or cached
	Output    *int      `json:"output_tokens"`
	QueueMS   *float64  `json:"queue_ms"`
	TTFTMS    *float64  `json:"ttft_ms"`
	Predicted *float64  `json:"predicted_ttft_ms"`
	OutputTPS *float64  `json:"output_tps"` // while it runs: since the first token
	DecodeTPS *float64  `json:"decode_tps"`
	WaitsAt   string    `json:"waits_at"`
	Place     *int      `json:"place"`
	Status    int       `json:"status"`
	Error     string    `json:"error"`
}

// BoardPair is a KVPair with its key.
type BoardPair struct {
	Key string `json:"key"`
	KVPair
}

// BoardMoves is one node's KVModel.
type BoardMoves struct {
	Key  string `json:"key"`
	Node string `json:"node"`
	Mode string `json:"mode"`
	KVModel
	StoreBytes  int64 `json:"store_bytes"`
	StoreBudget int64 `json:"store_budget"`
}

// BoardFirst is how long first tokens took, over all nodes that requests come in by.
type BoardFirst struct {
	Key    string   `json:"key"`
	Model  string   `json:"model"`
	Host   string   `json:"host"`
	Class  string   `json:"class"`
	Hour   int      `json:"hour_count"`
	Hour50 *float64 `json:"hour_p50_ms"` // to 12 %, as all of these
	Hour95 *float64 `json:"hour_p95_ms"`
	Day    int      `json:"day_count"`
	Day50  *float64 `json:"day_p50_ms"`
	Day95  *float64 `json:"day_p95_ms"`
	Slow   bool     `json:"slow"` // far above the other machines, with the same model and start, in the last hour
}

// BoardUse is a Use with its key, and what there is of the origin at this moment: in the rows of today.
type BoardUse struct {
	Key string `json:"key"`
	Use
	Running *int `json:"running"`
	Waiting *int `json:"waiting"`
}

// BoardTurn is a node while the mesh goes to another version.
type BoardTurn struct {
	Key   string `json:"key"`
	Name  string `json:"name"`
	From  string `json:"from"`
	To    string `json:"to"`
	State string `json:"state"` // as RolloutMember, or what it does to get the version where that is known
	Why   string `json:"why"`
	Lead  string `json:"lead"` // name of the node that leads
}

// BoardAlias is an Alias with its key.
type BoardAlias struct {
	Key string `json:"key"`
	Alias
}

// BoardWarning is a warning with the node it is of, "" = the mesh as the answering node sees it.
type BoardWarning struct {
	Key  string `json:"key"`
	Node string `json:"node"`
	Warning
}
