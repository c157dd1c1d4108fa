package rollout

import (
	"slices"
	"time"
)

// Plan is how it would go if all went well and nothing else changed: the names in their order, and how each member ends.
func Plan(r Roll, now time.Time, seen []Sight) (Roll, []string) {
	seen = slices.Clone(seen)
	var turns []string
	for {
		var step Step
		r, step = r.Next(now, true, seen)
		switch step.Act {
		case End:
			return r, turns
		case Wait:
			now = now.Add(waitWithin)
		case Start:
			i := slices.IndexFunc(seen, func(s Sight) bool { return s.ID == step.Member })
			turns = append(turns, seen[i].Name)
			seen[i].Version, seen[i].Busy = r.Version, false
		}
	}
}
