package rollout

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/mod/semver"
)

// State is how far a member is.
type State string

const (
	Waiting  State = "waiting"  // its turn has not come
	Updating State = "updating" // it is at hand; at most one is
	Done     State = "done"     // it runs the version, or a newer one
	Offline  State = "offline"  // it is not there: its turn comes when it is back
	Left     State = "left"     // it stays as it is, and Why says why
)

// Stage is how far the whole is.
type Stage string

const (
	Running Stage = "running"
	Ended   Stage = "ended"   // nobody is left whose turn could come
	Stopped Stage = "stopped" // by a fault or a person: Why says by whose
)

// How long things may take; past it a roll-out goes on without the member, or stops.
const (
	beginWithin = 5 * time.Minute  // a member that was told to begin
	stepWithin  = 45 * time.Minute // a member at hand, from its turn to the end of its trial
	waitWithin  = 15 * time.Minute // for another host of a model, or for somebody else's update to end
)

// Entry is one member in a roll-out.
type Entry struct {
	ID    string    `json:"id"`
	Name  string    `json:"name"`
	From  string    `json:"from"` // the version it had
	State State     `json:"state"`
	Why   string    `json:"why,omitempty"`
	Since time.Time `json:"since"` // of the state
	// Back is the last time it had gone back from a version before its turn: another one is this roll-out's.
	Back int64 `json:"back,omitempty"`
}

// Roll is one roll-out. Its own methods give changed copies.
type Roll struct {
	ID       string    `json:"id"`
	Version  string    `json:"version"` // all shall run
	Lead     string    `json:"lead"`    // id of the node that leads, which comes last
	LeadName string    `json:"lead_name"`
	Auto     bool      `json:"auto,omitempty"` // nobody asked for it: members that do not want that are left
	Begun    time.Time `json:"begun"`
	Stage    Stage     `json:"stage"`
	Why      string    `json:"why,omitempty"`    // it stopped, or what it waits for
	Canary   string    `json:"canary,omitempty"` // id; "" = nobody's turn has come
	Held     time.Time `json:"held,omitzero"`    // since when nobody may go; zero = somebody may, or is at hand
	Halted   time.Time `json:"halted,omitzero"`  // when a person ended it; zero = nobody did
	HaltedBy string    `json:"halted_by,omitempty"`
	Members  []Entry   `json:"members"`
}

// Sight is a member as it is now.
type Sight struct {
	ID, Name, Version string
	Wire              int      // version it speaks between nodes: the oldest come first, before the others leave them behind
	Online            bool     // alive, and it answers
	Draining          bool     // what it serves does not count
	Models            []string // it is ready to serve
	Auto              bool     // its owner lets it be updated unasked
	Refuses           string   // why it cannot be updated from elsewhere; "" = it can
	Busy              bool     // it installs a version, restarts for it or has it on trial
	Roll              string   // the roll-out it last began for
	Fault             string   // why that came to nothing before the switch; "" = it did not
	Bad               string   // the version it last went back from
	Back              int64    // tells that time from others
	BackWhy           string
}

// Order is what a roll-out begins from.
type Order struct {
	ID, Version    string
	Lead, LeadName string
	Auto           bool
	Now            time.Time
}

// Begin makes a roll-out over all members that are known, those included that are off.
func Begin(o Order, seen []Sight) (Roll, error) {
	if err := CheckVersion(o.Version); err != nil {
		return Roll{}, err
	}
	r := Roll{ID: o.ID, Version: o.Version, Lead: o.Lead, LeadName: o.LeadName, Auto: o.Auto, Begun: o.Now, Stage: Running}
	r.meet(o.Now, seen)
	return r, nil
}

// CheckVersion says whether v is a version as releases have them, such as v1.2.3.
func CheckVersion(v string) error {
	if len(v) > 64 || semver.Canonical(v) != v || v == "" {
		return fmt.Errorf("%.80q is no version: write it as v1.2.3", v)
	}
	return nil
}

// Sound is for one that comes from a member's note or from a file.
func (r Roll) Sound() bool {
	hand, ids := 0, map[string]bool{}
	for _, e := range r.Members {
		if e.State == Updating {
			hand++
		}
		ids[e.ID] = true
	}
	if len(ids) < len(r.Members) {
		return false // one of two of the same would never come to an end
	}
	return r.ID != "" && CheckVersion(r.Version) == nil && (r.Stage == Running || r.Stage == Ended || r.Stage == Stopped) && hand <= 1
}

// LedBy is the roll-out as another node, or another run of the same, goes on with it. Its times may be by the clock of a machine
// that is a day off: who is at hand, and who is waited for, has its time anew when another node leads.
func (r Roll) LedBy(id, name string, now time.Time) Roll {
	another := r.Lead != id
	r.Lead, r.LeadName, r.Members = id, name, slices.Clone(r.Members)
	for i := range r.Members {
		if e := &r.Members[i]; another || e.Since.After(now) {
			e.Since = now
		}
	}
	if !r.Held.IsZero() && (another || r.Held.After(now)) {
		r.Held = now
	}
	return r
}

// Behind are the names of members that were off when it ended and are there now with an older version.
func (r Roll) Behind(seen []Sight) (names []string) {
	for _, s := range seen {
		if i := r.index(s.ID); r.Stage == Ended && s.Online && Older(s.Version, r.Version) && (i < 0 || r.Members[i].State == Offline) {
			names = append(names, s.Name)
		}
	}
	return names
}

// Again goes on with one that has ended, for those who were off.
func (r Roll) Again() Roll {
	r.Stage, r.Why = Running, ""
	return r
}

// Halt ends it by a person's word, given at the node of that name: the member at hand finishes, and nobody else begins. One
// that is over, or was ended so before, stays as it is.
func (r Roll) Halt(now time.Time, by string) Roll {
	if r.Stage == Running && r.Halted.IsZero() {
		r.Halted, r.HaltedBy = now, by
	}
	return r
}

// halt says who ended it, in words that mean the same at each member, whatever its time zone.
func (r *Roll) halt() string {
	return fmt.Sprintf("it was stopped at %s on %s UTC", r.HaltedBy, r.Halted.UTC().Format("2006-01-02 15:04"))
}

// atHand is the member whose turn it is.
func (r Roll) atHand() (Entry, bool) {
	for _, e := range r.Members {
		if e.State == Updating {
			return e, true
		}
	}
	return Entry{}, false
}

// meet takes in members that are new to it.
func (r *Roll) meet(now time.Time, seen []Sight) {
	for _, s := range seen {
		if r.index(s.ID) < 0 {
			r.Members = append(r.Members, Entry{ID: s.ID, Name: s.Name, From: s.Version, State: Waiting, Since: now, Back: s.Back})
		}
	}
}

func (r *Roll) index(id string) int {
	return slices.IndexFunc(r.Members, func(e Entry) bool { return e.ID == id })
}

// put gives a member another state.
func (r *Roll) put(now time.Time, id string, to State, why string) {
	e := &r.Members[r.index(id)]
	if e.State != to {
		e.State, e.Since = to, now
	}
	e.Why = why
}

// Older reports whether a is below b. What is no version is older than any.
func Older(a, b string) bool { return semver.Compare(a, b) < 0 }
