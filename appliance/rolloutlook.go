package appliance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
	"viiwork/serf"
	"viiwork/update/rollout"
)

// lookWithin is how long a member that gossip holds for alive may take to say how it stands. One whose machine has much to do, as
// when it loads a model, is not away: its turn would be passed over, and what comes first or last would be another one.
const lookWithin = 10 * time.Second

// look asks everyone how they stand with their programs.
func (r *rollouts) look(ctx context.Context, f *fellows) []rollout.Sight {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	var (
		mu    sync.Mutex
		told  = map[string]status.Program{f.id: r.program()}
		fault = map[string]error{}
		asks  sync.WaitGroup
		limit = make(chan struct{}, askMost)
	)
	members := f.cluster.Members()
	for _, s := range members {
		if s.ID == f.id || s.State != serf.StateAlive {
			continue
		}
		asks.Go(func() {
			select {
			case limit <- struct{}{}:
				defer func() { <-limit }()
			case <-ctx.Done():
				return
			}
			var p status.Program
			err := ask(ctx, f.client, asked{mesh.Member{ID: s.ID, Name: s.Name, Addr: s.API.String(), Version: s.Version}, updatePath, nil}, &p)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				fault[s.ID] = err
				return
			}
			told[s.ID] = p
		})
	}
	asks.Wait()
	r.mu.Lock()
	r.seen = told
	r.mu.Unlock()
	var seen []rollout.Sight
	for _, s := range members {
		if p, answered := told[s.ID]; answered {
			seen = append(seen, sightOf(s, p))
			continue
		}
		seen = append(seen, away(s, fault[s.ID]))
	}
	return seen
}

// sightOf is a member that answers.
func sightOf(s serf.Member, p status.Program) rollout.Sight {
	return rollout.Sight{
		ID: s.ID, Name: s.Name, Version: p.Version, Wire: s.Wire, Online: true, Draining: p.Draining, Models: p.Ready, Auto: p.Auto,
		Refuses: p.Refuses, Busy: p.Act != "", Roll: p.Roll, Fault: p.Fault, Bad: p.Bad, Back: p.Back, BackWhy: p.BackWhy,
	}
}

// away is a member that does not. One that lives and knows no such question is too old to be asked.
func away(s serf.Member, err error) rollout.Sight {
	out := rollout.Sight{ID: s.ID, Name: s.Name, Version: s.Version, Wire: s.Wire}
	var no *notTold
	switch {
	case s.State == serf.StateAlive && s.Wire < mesh.WireOldest:
		out.Online, out.Refuses = true, fmt.Sprintf("it speaks version %d between nodes, and this node %d to %d: run 'viiwork update' there", s.Wire, mesh.WireOldest, mesh.Wire)
	case errors.As(err, &no) && no.status == http.StatusNotFound:
		out.Online, out.Refuses = true, "its viiwork is too old to be updated from elsewhere: run 'viiwork update' there"
	}
	return out
}

// gossiped is who there is without asking anybody.
func gossiped(f *fellows) (seen []rollout.Sight) {
	for _, s := range f.cluster.Members() {
		seen = append(seen, rollout.Sight{ID: s.ID, Name: s.Name, Version: s.Version, Online: s.State == serf.StateAlive})
	}
	return seen
}
