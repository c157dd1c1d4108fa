package status

import "time"

// Restart is how a node stands on its way to its next run: what GET and POST /api/update/restart answer on its socket.
type Restart struct {
	Run      string    `json:"run"`            // changes with every start of the program
	PID      int       `json:"pid"`            // of the process
	Version  string    `json:"version"`        // of the program
	Ending   bool      `json:"ending"`         // it finishes what runs and then ends
	Since    time.Time `json:"since,omitzero"` // it has been ending; zero = it is not
	Until    time.Time `json:"until,omitzero"` // it ends at the latest, with an error for what still runs then
	Requests int       `json:"requests"`       // being answered; what it waits for while it is ending
	Last     *Handover `json:"last"`           // how this run took over; null = the run before left no word
}

// Handover is how one run of a node followed another.
type Handover struct {
	From     string    `json:"from"` // the program's version before
	To       string    `json:"to"`
	Requests int       `json:"requests"` // that were waited for
	Drain    float64   `json:"drain_s"`  // from the wish until nothing ran any more
	Swap     float64   `json:"swap_s"`   // from then until the next run answered
	Held     float64   `json:"held_s"`   // how long a new connection had to wait at most; without a manager that keeps listeners it was refused
	At       time.Time `json:"at"`       // the next run answered
}
