package mesh

import (
	"context"
	"sync"
	"time"
)

// mourned is for how long a member that is gone and did not know the new secret is waited for: it may only be restarting.
const mourned = 2 * time.Minute

// byHand replaces a secret that the owner brings to each node with a restart: one that gives both begins with the old one and
// uses the new one once everybody understands it. Run's goroutine alone uses it.
type byHand struct {
	r    *Rotation
	seen map[string]sighting // by id
}

type sighting struct {
	at    time.Time // last alive
	knows bool      // the new secret
}

// look asks everyone in the new secret.
func (h *byHand) look(ctx context.Context, s secretState) {
	r, now := h.r, time.Now()
	alive := r.alive()
	knows := make([]bool, len(alive))
	var asked sync.WaitGroup
	for i, m := range alive {
		asked.Go(func() {
			_, err := r.tell(ctx, m, message{Step: stepAsk}, derive(s.Secret, labelHTTP))
			knows[i] = err == nil
		})
	}
	asked.Wait()
	for i, m := range alive {
		if len(h.seen) < maxMembers {
			h.seen[m.ID] = sighting{now, knows[i]}
		}
	}
	if len(alive) == 0 {
		return
	}
	for id, seen := range h.seen {
		switch {
		case now.Sub(seen.at) > mourned:
			delete(h.seen, id)
		case !seen.knows:
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Stage, r.turned = stageUse, false
	r.become(s)
}
