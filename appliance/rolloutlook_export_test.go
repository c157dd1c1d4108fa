package appliance

import (
	"viiwork/serf"
	"viiwork/update/rollout"
)

// Away is how who leads sees a member that answered its question with a status, 0 = not at all.
func Away(s serf.Member, status int) rollout.Sight {
	if status == 0 {
		return away(s, nil)
	}
	return away(s, &notTold{status: status})
}

// Reading reads notes of the mesh's lock.
type Reading struct{ r reading }

// Of is what a note says.
func (r *Reading) Of(note []byte) rollout.Roll { return r.r.of(note) }
