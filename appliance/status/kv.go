package status

// KV is GET /api/kv: what moving caches has come to on this node.
type KV struct {
	Mode   string    `json:"mode"`
	Store  KVStore   `json:"store"`
	Pairs  []KVPair  `json:"pairs"`
	Models []KVModel `json:"models"`
}

// KVStore is how full the node's own store of replicas is.
type KVStore struct {
	Bytes    int64 `json:"bytes"`
	Budget   int64 `json:"budget"`
	Replicas int   `json:"replicas"`
}

// KVPair is what came from one node to another by one path: "direct", "tailnet", "mesh", "store" for what was
// this node's own, or "none" for what did not come so far.
type KVPair struct {
	From            string  `json:"from"`
	To              string  `json:"to"`
	Path            string  `json:"path"`
	Transfers       int     `json:"transfers"`
	Bytes           int64   `json:"bytes"`
	Seconds         float64 `json:"seconds"` // of the transfers
	Imports         int     `json:"imports"` // states that an engine took
	Proved          int     `json:"proved"`  // and then found in them what it should
	Failed          int     `json:"failed"`
	FetchSeconds    float64 `json:"fetch_seconds"` // of the imports: bringing what was missing,
	AssembleSeconds float64 `json:"assemble_seconds"`
	RestoreSeconds  float64 `json:"restore_seconds"` // and the engine's reading it
}

// KVModel is whether a model's caches are moved, and what that has cost and brought.
type KVModel struct {
	Name    string `json:"name"`
	Enabled bool   `json:"enabled"`
	Why     string `json:"why,omitempty"` // it is not

	Saves        int     `json:"saves"`
	SavedBytes   int64   `json:"saved_bytes"`
	StallSeconds float64 `json:"stall_seconds"` // in which engines did nothing else

	// Turns that ran on another node than the one before them, by the share of the prompt that was cached: 90 % and more,
	// 30 to 90, less.
	Warm   int `json:"warm"`
	Partly int `json:"partly"`
	Cold   int `json:"cold"`
}
