package status

import "time"

// Program is how a node stands with its own program: GET /v1/update, between members.
type Program struct {
	Version  string   `json:"version"`
	Ready    []string `json:"ready"` // models that it serves at this moment
	Draining bool     `json:"draining"`
	Auto     bool     `json:"auto"`              // its owner lets it be updated unasked
	Refuses  string   `json:"refuses,omitempty"` // why it cannot be updated from elsewhere
	Act      string   `json:"act,omitempty"`     // what it does to get another version; "" = nothing
	Done     int64    `json:"done,omitempty"`    // of the act, in bytes; 0 = it is not counted
	Size     int64    `json:"size,omitempty"`
	Roll     string   `json:"roll,omitempty"`  // the roll-out it last began for
	Fault    string   `json:"fault,omitempty"` // why that came to nothing
	Bad      string   `json:"bad,omitempty"`   // the version it last went back from
	Back     int64    `json:"back,omitempty"`  // when, in Unix milliseconds of its clock
	BackWhy  string   `json:"back_why,omitempty"`
}

// Rollout is how the mesh goes to another version: in GET /v1/cluster, and GET /api/update/mesh.
type Rollout struct {
	Version string    `json:"version"`
	Stage   string    `json:"stage"`         // planned, running, ended or stopped
	Why     string    `json:"why,omitempty"` // what it waits for, or why it stopped
	Lead    string    `json:"lead"`          // name of the node that leads
	Led     bool      `json:"led"`           // that one is there and has the lock of the mesh
	Auto    bool      `json:"auto"`          // nobody asked for it
	Begun   time.Time `json:"begun,omitzero"`
	// A person ended it: when, and by the word of which node. The member at hand finishes all the same.
	StoppedAt time.Time       `json:"stopped_at,omitzero"`
	StoppedBy string          `json:"stopped_by,omitempty"`
	Order     []string        `json:"order,omitempty"` // of a plan: names
	Members   []RolloutMember `json:"members"`
}

// RolloutMember is one node in a roll-out.
type RolloutMember struct {
	Name  string `json:"name"`
	From  string `json:"from"`  // the version it had
	State string `json:"state"` // waiting, updating, done, offline or left
	Why   string `json:"why,omitempty"`
	Act   string `json:"act,omitempty"` // of the one that is updating, as the leader hears
	Done  int64  `json:"done,omitempty"`
	Size  int64  `json:"size,omitempty"`
}

// RolloutRequest is the body of POST /api/update/mesh.
type RolloutRequest struct {
	Version string `json:"version"` // "" = the newest proved release
	Plan    bool   `json:"plan"`    // say what would be done, and do nothing
	Stop    bool   `json:"stop"`    // end the one that is under way, whoever leads it
}
