package appliance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"viiwork/appliance/status"
	"viiwork/update/rollout"
)

// rollout tells of the last one that this node knows of, nil if there was none lately.
func (a *Appliance) rollout() *status.Rollout {
	roll, held := a.rollouts.known()
	if roll.ID == "" || roll.Stage != rollout.Running && time.Since(roll.Begun) > catchUp {
		return nil
	}
	roll.Members = slices.Clone(roll.Members)
	out := drawRoll(roll)
	out.Led = held
	a.rollouts.mu.Lock()
	defer a.rollouts.mu.Unlock()
	for i, e := range roll.Members {
		if p, told := a.rollouts.seen[e.ID]; told && e.State == rollout.Updating {
			m := &out.Members[i]
			m.Act, m.Done, m.Size = p.Act, p.Done, p.Size
		}
	}
	return &out
}

// drawRoll has the members in the order of their names, roll's own too.
func drawRoll(roll rollout.Roll) status.Rollout {
	slices.SortStableFunc(roll.Members, func(x, y rollout.Entry) int { return strings.Compare(x.Name, y.Name) })
	out := status.Rollout{
		Version: roll.Version, Stage: string(roll.Stage), Why: roll.Why, Lead: roll.LeadName, Auto: roll.Auto, Begun: roll.Begun,
		StoppedAt: roll.Halted, StoppedBy: roll.HaltedBy, Members: []status.RolloutMember{},
	}
	for _, e := range roll.Members {
		out.Members = append(out.Members, status.RolloutMember{Name: e.Name, From: e.From, State: string(e.State), Why: e.Why})
	}
	return out
}

// rolloutWarnings tell everyone who looks at any node.
func (a *Appliance) rolloutWarnings() (all []status.Warning) {
	out := a.rollout()
	switch {
	case out == nil:
	case out.Stage == string(rollout.Stopped) && out.StoppedBy != "":
		all = append(all, status.Warning{ID: "rollout_stopped", Text: fmt.Sprintf("the roll-out of %s, led by %s, is at its end before all have it: %s", out.Version, out.Lead, out.Why),
			Fix: "'viiwork update --mesh' goes on with it; it does not begin again by itself"})
	case out.Stage == string(rollout.Stopped):
		all = append(all, status.Warning{ID: "rollout_stopped", Text: fmt.Sprintf("the roll-out of %s, led by %s, has stopped: %s", out.Version, out.Lead, out.Why),
			Fix: "no other node is updated; look at that machine, then run 'viiwork update --mesh' again"})
	case out.Stage != string(rollout.Running):
	case out.Led:
		text := fmt.Sprintf("%s brings the mesh to %s", out.Lead, out.Version)
		if out.Why != "" {
			text += ": " + out.Why
		}
		all = append(all, status.Warning{ID: "rollout", Text: text, Fix: "it goes on by itself; 'viiwork update --mesh' on " + out.Lead + " follows it, and with --stop on any node ends it"})
	case out.StoppedBy != "":
		all = append(all, status.Warning{ID: "rollout_alone", Text: fmt.Sprintf("the roll-out of %s was stopped at %s, and %s, which led it, is not there to see the last turn end", out.Version, out.StoppedBy, out.Lead),
			Fix: "start " + out.Lead + " again, or run 'viiwork update --mesh --stop' on another node"})
	default:
		all = append(all, status.Warning{ID: "rollout_alone", Text: fmt.Sprintf("the roll-out of %s is not at its end, and %s, which led it, is not there", out.Version, out.Lead),
			Fix: "start " + out.Lead + " again, or run 'viiwork update --mesh' on another node: it goes on from there"})
	}
	return all
}
