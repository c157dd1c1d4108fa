package status

import "time"

// View is what a node tells the others' pages of itself, beside its capacity: GET /v1/view, between members.
type View struct {
	Node     Node      `json:"node"` // without members
	Started  time.Time `json:"started"`
	Time     time.Time `json:"time"`     // by the node's clock
	Requests []Request `json:"requests"` // running ones, and those that ended last
	KV       KV        `json:"kv"`
	Firsts   []First   `json:"firsts"` // of requests that came in by the node
	Uses     []Use     `json:"uses"`   // the same
	// Refused counts, by model, requests that came in by the node and got no slot in the last ten minutes.
	Refused map[string]int `json:"refused"`
	Power   *Power         `json:"power"` // null where no card tells its watts
}

// First is how long first tokens took, of requests alike: one model, one node that ran them, one share of cached prompt.
type First struct {
	Model  string `json:"model"`
	Host   string `json:"host"`
	Class  string `json:"class"`  // warm (90 % of the prompt was cached), partly (30 %), cold; "" = not known
	Window string `json:"window"` // 1h, 24h
	// Counts are of times below 10 ms · 1.25ⁿ, the last one of all that are longer: so that nodes' counts can be added.
	Counts []int `json:"counts"`
}

// Use is what came in by one node of one origin.
type Use struct {
	Node   string `json:"node"`   // where it came in
	Origin string `json:"origin"` // the device or address it came from
	Window string `json:"window"` // today, 7d
	Tally
}

// Tally sums requests up. Tokens that an engine did not tell are not in it.
type Tally struct {
	Requests int   `json:"requests"`
	Failed   int   `json:"failed"`
	Refused  int   `json:"refused"` // of them: no slot in time
	Prompt   int64 `json:"prompt_tokens"`
	Cached   int64 `json:"cached_tokens"` // of the prompt
	Output   int64 `json:"output_tokens"`
}

// Power is what the cards of a node draw, as far as they tell.
type Power struct {
	Watts    float64 `json:"watts"`
	KWhToday float64 `json:"kwh_today"` // since midnight by the node's clock, or its start of counting
	Cards    int     `json:"cards"`     // that tell their watts
	Of       int     `json:"of"`        // all cards
}

// Series is GET /api/history: figures over time, all at the same moments.
type Series struct {
	Node  string `json:"node"`
	From  int64  `json:"from"` // of the first, in Unix seconds by the node's clock
	Step  int    `json:"step"` // seconds
	Lines []Line `json:"lines"`
}

// Line is one figure over time.
type Line struct {
	Name   string     `json:"name"`
	Values []*float64 `json:"values"` // null where it is not known
}
