package gateway

import (
	"sync"
	"time"

	"viiwork/appliance/mesh"
)

const (
	// beatTime is how long a report may stand without a word that it still does: a change would have come by then.
	beatTime = 1200 * time.Millisecond
	// lagTime is how old a report may be when it comes.
	lagTime = 60 * time.Millisecond
)

// ahead counts the forwards of which a member's report cannot know yet. Without it all requests of one moment would go
// to the member that had most room before it, and most of them be refused there.
type ahead struct {
	mu  sync.Mutex // held over looking for a seat and taking it, which must be one act
	out map[aheadKey]map[*departure]struct{}
}

type aheadKey struct{ id, model string }

// departure is one forward under way.
type departure struct {
	at         time.Time
	epoch, seq uint64 // of the report it was planned by
}

// count wants the lock held.
func (a *ahead) count(n mesh.NodeState, model string) int {
	count := 0
	for d := range a.out[aheadKey{n.Member.ID, model}] {
		within := lagTime
		if d.epoch == n.Report.Epoch && d.seq == n.Report.Seq {
			within = beatTime
		}
		if time.Since(d.at) < within {
			count++
		}
	}
	return count
}

// add wants the lock held; the func it gives, which ends the forward, does not.
func (a *ahead) add(n mesh.NodeState, model string) (arrived func()) {
	key, d := aheadKey{n.Member.ID, model}, &departure{time.Now(), n.Report.Epoch, n.Report.Seq}
	if a.out == nil {
		a.out = map[aheadKey]map[*departure]struct{}{}
	}
	if a.out[key] == nil {
		a.out[key] = map[*departure]struct{}{}
	}
	a.out[key][d] = struct{}{}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.out[key], d)
		if len(a.out[key]) == 0 {
			delete(a.out, key)
		}
	}
}
