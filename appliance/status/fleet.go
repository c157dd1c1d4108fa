package status

// Fleet is GET /v1/fleet/capacity: how much each model can take, over the whole mesh.
type Fleet struct {
	View       string       `json:"view"` // the node whose picture this is
	StaleAfter float64      `json:"stale_after_s"`
	Models     []FleetModel `json:"models"`
}

// FleetModel is a model with all nodes that have it.
type FleetModel struct {
	Name    string `json:"name"`
	AliasOf string `json:"alias_of,omitempty"`
	FleetFigures
	Queued *int        `json:"queued,omitempty"`
	Hosts  []FleetHost `json:"hosts"`
}

// FleetHost is a node that has it.
type FleetHost struct {
	Node string `json:"node"`
	API  string `json:"api,omitempty"` // its address; absent for the node that answers
	FleetFigures
	Queued *int   `json:"queued,omitempty"`  // requests in its line, whichever node they came in by
	WaitMS *int64 `json:"wait_ms,omitempty"` // until one more would have a slot
	AgeMS  int64  `json:"age_ms"`            // since it last spoke
	Stale  bool   `json:"stale"`
}

// FleetFigures are absent while not known, never 0 then.
type FleetFigures struct {
	Slots   *int `json:"slots,omitempty"`
	Busy    *int `json:"busy,omitempty"`
	Free    *int `json:"free,omitempty"`
	Context *int `json:"ctx,omitempty"`
}
