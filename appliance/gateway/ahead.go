package gateway

import (
	"time"

	"viiwork/appliance/mesh"
)

const (
	// beatTime is how long a report may stand without a word that it still does: a change would have come by then.
	beatTime = 1200 * time.Millisecond
	// lagTime is how old a report may be when it comes.
	lagTime = 60 * time.Millisecond
)

// ahead counts the seats and places that were asked for and of which a member's report cannot know yet. Without it all
// requests of one moment would go to the member that had most room before it, and most of them be refused there. The
// lineup's lock guards it.
type ahead struct {
	out map[aheadKey]map[*departure]struct{}
}

type aheadKey struct{ id, model string }

// departure is one request on its way to a member.
type departure struct {
	key        aheadKey
	waits      bool // to stand in the line
	at         time.Time
	epoch, seq uint64 // of the report it was planned by
}

// count tells how many are on their way to a slot and to the line.
func (a *ahead) count(n mesh.NodeState, model string) (seats, places int) {
	for d := range a.out[aheadKey{n.Member.ID, model}] {
		within := lagTime
		if d.epoch == n.Report.Epoch && d.seq == n.Report.Seq {
			within = beatTime
		}
		switch {
		case time.Since(d.at) >= within:
		case d.waits:
			places++
		default:
			seats++
		}
	}
	return seats, places
}

// add notes a departure, to be removed when it has ended.
func (a *ahead) add(n mesh.NodeState, model string, waits bool) *departure {
	d := &departure{aheadKey{n.Member.ID, model}, waits, time.Now(), n.Report.Epoch, n.Report.Seq}
	if a.out == nil {
		a.out = map[aheadKey]map[*departure]struct{}{}
	}
	if a.out[d.key] == nil {
		a.out[d.key] = map[*departure]struct{}{}
	}
	a.out[d.key][d] = struct{}{}
	return d
}

// remove ends a departure; nil is none.
func (a *ahead) remove(d *departure) {
	if d == nil {
		return
	}
	delete(a.out[d.key], d)
	if len(a.out[d.key]) == 0 {
		delete(a.out, d.key)
	}
}
