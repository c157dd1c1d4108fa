package engine

import "time"

// holdWeight is what the newest request counts for in the mean: some ten requests back nothing is left of the old days.
const holdWeight = 0.2

// hold is how long requests take a slot, as an exponentially weighted mean.
type hold struct{ mean time.Duration }

func (h *hold) add(d time.Duration) {
	if h.mean == 0 {
		h.mean = d
		return
	}
	h.mean += time.Duration(holdWeight * float64(d-h.mean))
}

// ExpectedWait is how long somebody who has that many before him in the line waits for a slot, as far as the past tells;
// -1 when it tells nothing. Slots are those of all ready backends.
func (m ModelState) ExpectedWait(ahead int) time.Duration {
	slots := 0
	for _, b := range m.Backends {
		if b.State == StateReady || b.State == StateBusy {
			slots += len(b.Slots)
		}
	}
	if m.Hold == 0 || slots == 0 {
		return -1
	}
	return time.Duration(float64(m.Hold) * float64(ahead+1) / float64(slots))
}
