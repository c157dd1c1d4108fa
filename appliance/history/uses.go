package history

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"slices"
	"time"

	"viiwork/appliance/status"
)

const (
	maxDays    = 8
	maxOrigins = 200 // of a day; the rest together
	others     = "others"
	maxUses    = 1 << 20 // bytes of the file
	maxTold    = 40      // origins, those with the most tokens

	// OwnPrograms is the origin of what programs of the node's own machine ask for.
	OwnPrograms = "this machine"
)

// uses is who asked for how much, by day and origin. Days are the node's own, by its clock and zone.
type uses struct {
	path  string
	dirty bool
	Days  map[string]*day `json:"days"` // by date
}

type day struct {
	By  map[string]*status.Tally `json:"by"`
	KWh float64                  `json:"kwh"`
}

// openUses reads the file, and begins anew where that is none of ours.
func openUses(dir string) *uses {
	u := &uses{path: filepath.Join(dir, "uses.json"), Days: map[string]*day{}}
	data, err := readSome(u.path, maxUses)
	if err != nil {
		return u
	}
	var old uses
	if json.Unmarshal(data, &old) != nil || len(old.Days) > maxDays {
		return u
	}
	for date, d := range old.Days {
		if _, err := time.Parse(time.DateOnly, date); err != nil || d == nil || len(d.By) > maxOrigins+1 || !(d.KWh >= 0 && d.KWh < 1e6) {
			return u
		}
		for origin, t := range d.By {
			if t == nil || !isName(origin) || min(t.Requests, t.Failed, t.Refused) < 0 || min(t.Prompt, t.Cached, t.Output) < 0 {
				return u
			}
		}
		if d.By == nil {
			d.By = map[string]*status.Tally{}
		}
	}
	u.Days = old.Days
	if u.Days == nil {
		u.Days = map[string]*day{}
	}
	return u
}

// today is the day of now, and room for it.
func (u *uses) today(now time.Time) *day {
	date := now.Format(time.DateOnly)
	if d := u.Days[date]; d != nil {
		return d
	}
	u.Days[date] = &day{By: map[string]*status.Tally{}}
	for len(u.Days) > maxDays {
		oldest := date
		for d := range u.Days {
			oldest = min(oldest, d)
		}
		delete(u.Days, oldest)
		if oldest == date { // the clock was put back: it is not kept, nor does it push others out
			return &day{By: map[string]*status.Tally{}}
		}
	}
	return u.Days[date]
}

func (u *uses) add(now time.Time, r status.Request) {
	d := u.today(now)
	origin := cmp.Or(r.Client, OwnPrograms)
	if !isName(origin) {
		origin = others
	}
	if d.By[origin] == nil {
		if len(d.By) >= maxOrigins {
			origin = others
		}
		if d.By[origin] == nil {
			d.By[origin] = &status.Tally{}
		}
	}
	t := d.By[origin]
	t.Requests++
	switch {
	case r.Error == "queue_timeout" || r.Error == "queue_full":
		t.Refused++
		fallthrough
	case r.Status >= 400 && r.Status != 499:
		t.Failed++
	}
	t.Prompt += tokens(r.PromptTokens)
	t.Cached += tokens(r.CachedTokens)
	t.Output += tokens(r.OutputTokens)
	u.dirty = true
}

func tokens(n *int) int64 {
	if n == nil {
		return 0
	}
	return max(0, int64(*n))
}

func (u *uses) drew(now time.Time, kwh float64) {
	u.today(now).KWh += kwh
	u.dirty = true
}

func (u *uses) energy(now time.Time) float64 {
	if d := u.Days[now.Format(time.DateOnly)]; d != nil {
		return d.KWh
	}
	return 0
}

// told sums up today and the last seven days.
func (u *uses) told(node string, now time.Time) []status.Use {
	all := []status.Use{}
	today, week := now.Format(time.DateOnly), now.AddDate(0, 0, -6).Format(time.DateOnly)
	sums := map[string]*status.Tally{}
	for date, d := range u.Days {
		if date < week || date > today {
			continue
		}
		for origin, t := range d.By {
			if date == today {
				all = append(all, status.Use{Node: node, Origin: origin, Window: "today", Tally: *t})
			}
			if sums[origin] == nil {
				sums[origin] = &status.Tally{}
			}
			plus(sums[origin], *t)
		}
	}
	for origin, t := range sums {
		all = append(all, status.Use{Node: node, Origin: origin, Window: "7d", Tally: *t})
	}
	slices.SortFunc(all, func(a, b status.Use) int {
		return cmp.Or(cmp.Compare(b.Prompt+b.Output, a.Prompt+a.Output), cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.Window, b.Window))
	})
	return all[:min(len(all), 2*maxTold)]
}

func plus(to *status.Tally, t status.Tally) {
	to.Requests, to.Failed, to.Refused = to.Requests+t.Requests, to.Failed+t.Failed, to.Refused+t.Refused
	to.Prompt, to.Cached, to.Output = to.Prompt+t.Prompt, to.Cached+t.Cached, to.Output+t.Output
}

// unwritten is the file as it should be, nil where it is so.
func (u *uses) unwritten() ([]byte, error) {
	if !u.dirty {
		return nil, nil
	}
	u.dirty = false
	return json.Marshal(u)
}
