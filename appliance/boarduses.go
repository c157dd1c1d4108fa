package appliance

import (
	"maps"
	"slices"

	"viiwork/appliance/history"
	"viiwork/appliance/status"
)

// A machine is slow where half of its first tokens take longer than slowTimes what the others' take, and slowBy more, over
// enough of them.
const (
	slowTimes  = 2
	slowBy     = 500.0 // milliseconds
	slowEnough = 5
)

// markSlow marks them: each is held against the machines with the same model and the same kind of start.
func markSlow(all []status.BoardFirst) {
	for i, f := range all {
		if f.Hour50 == nil || f.Hour < slowEnough {
			continue
		}
		var others []float64
		for _, o := range all {
			if o.Model == f.Model && o.Class == f.Class && o.Host != f.Host && o.Hour50 != nil && o.Hour >= slowEnough {
				others = append(others, *o.Hour50)
			}
		}
		if len(others) == 0 {
			continue
		}
		slices.Sort(others)
		usual := others[(len(others)-1)/2]
		all[i].Slow = *f.Hour50 > slowTimes*usual && *f.Hour50 > usual+slowBy
	}
}

// origin names whoever asks for people who look from another machine: there "this machine" would be another one.
func origin(entry, from string) string {
	if from == history.OwnPrograms {
		return entry + " itself"
	}
	return from
}

// uses lists who asked for how much, with what runs and waits of each now: whoever fills a line may have been answered
// nothing yet.
func (p picture) uses(requests []status.BoardRequest) []status.BoardUse {
	byKey := map[string]*status.BoardUse{}
	row := func(u status.Use, node string) *status.BoardUse {
		key := u.Origin + "|" + node + "|" + u.Window
		if byKey[key] == nil {
			byKey[key] = &status.BoardUse{Key: key, Use: u}
			if u.Window == "today" {
				byKey[key].Running, byKey[key].Waiting = new(int), new(int)
			}
		}
		return byKey[key]
	}
	for _, n := range p.nodes {
		if n.view == nil {
			continue
		}
		for _, u := range n.view.Uses {
			u.Origin = origin(n.Name, u.Origin)
			row(u, n.Name)
		}
	}
	for _, r := range requests {
		if !r.Live || r.From == "" {
			continue
		}
		u := row(status.Use{Node: r.Entry, Origin: r.From, Window: "today"}, r.Entry)
		if r.State == "queued" {
			*u.Waiting++
		} else {
			*u.Running++
		}
	}
	all := []status.BoardUse{}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		all = append(all, *byKey[key])
	}
	return all
}
