package appliance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/update/rollout"
)

// stopPath is where who leads a roll-out hears from a member that a person wants its end.
const stopPath = updatePath + "/stop"

// halt is a person's word that a roll-out shall end, until it is noted in the lock of the mesh.
type halt struct {
	roll  string // id; "" = the one that this node is about to begin
	by    string // name of the node where it was said
	at    time.Time
	fault string // why who leads has not been told yet
}

// why says what it waits for; fault is why this node cannot lead, where nobody else does.
func (h *halt) why(fault string) string {
	text := "it is being stopped"
	if h.fault != "" {
		fault = h.fault
	}
	if fault != "" {
		text += ", and that is tried again: " + fault
	}
	return text
}

// haltOrder is what a member asks of who leads.
type haltOrder struct {
	Roll string `json:"roll"`
}

// stop has the roll-out end that is under way: the member at hand finishes, and nobody else begins. Saying it again, or when
// nothing is under way, does no harm.
func (r *rollouts) stop(id, by string) {
	roll, _ := r.known()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wish != nil && !r.leads {
		r.wish = nil // it has not begun
	}
	switch {
	case r.halt != nil || id != "" && id != roll.ID:
	case r.begins:
		r.halt = &halt{by: by, at: time.Now()}
	case roll.Stage != rollout.Running: // why the last one could not be led is no news of this
		r.fault = ""
	case roll.Halted.IsZero() || !r.leads:
		r.halt = &halt{roll: roll.ID, by: by, at: time.Now()}
	}
	nudge(r.halts)
}

// halted is the roll-out with what a person has said of its end.
func (r *rollouts) halted(roll rollout.Roll) rollout.Roll {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.halt; h != nil && (h.roll == "" || h.roll == roll.ID) {
		h.roll = roll.ID
		return roll.Halt(h.at, h.by)
	}
	return roll
}

// insist brings a person's word to who leads until it is noted, or leads the rest if nobody does any more. It ends with ctx.
func (r *rollouts) insist(ctx context.Context, f *fellows) error {
	again := time.NewTicker(r.pace(tryEvery))
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.halts:
		case <-again.C:
		}
		roll, held := r.known()
		r.mu.Lock()
		if h := r.halt; h != nil && h.roll != "" && (roll.ID != h.roll || roll.Stage != rollout.Running || held && !roll.Halted.IsZero()) {
			r.halt = nil
		}
		waits, word := r.halt != nil && !r.leads, halt{}
		if waits {
			word = *r.halt // who begins to lead meanwhile changes it
		}
		r.mu.Unlock()
		switch {
		case !waits:
		case held && roll.Lead == f.id: // before it was started anew: it takes that back by itself
		case held:
			r.bring(ctx, f, word)
		default:
			r.want(wish{end: true})
		}
	}
}

// bring tells who leads. That it has taken the word shows in the note of the lock.
func (r *rollouts) bring(ctx context.Context, f *fellows, h halt) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	err := r.tellLeader(ctx, f, haltOrder{Roll: h.roll})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.halt == nil {
		return
	}
	if r.halt.fault = ""; err != nil {
		r.halt.fault = err.Error()
	}
}

func (r *rollouts) tellLeader(ctx context.Context, f *fellows, o haltOrder) error {
	v := f.lock.View()
	body, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("writing to who leads: %w", err)
	}
	for _, m := range alive(f.cluster) {
		if m.ID != v.Owner {
			continue
		}
		resp, err := f.client.Post(ctx, m, stopPath, body)
		if err != nil {
			return fmt.Errorf("%s, which leads, cannot be told: %w", m.Name, err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			return fmt.Errorf("%s, which leads, answers %d", m.Name, resp.StatusCode)
		}
		return nil
	}
	return fmt.Errorf("%s, which leads, is away; its word lapses in %s", v.Name, v.Left.Round(time.Second))
}

// askedToStop answers a member whose owner wants an end.
func (r *rollouts) askedToStop(f *fellows, w http.ResponseWriter, req *http.Request) {
	var o haltOrder
	peer, ok := f.signedWord(w, req, &o)
	if !ok {
		return
	}
	by := ""
	for _, m := range f.cluster.Members() {
		if m.ID == peer.ID {
			by = m.Name
		}
	}
	r.mu.Lock()
	leads := r.leads
	r.mu.Unlock()
	if roll, _ := r.known(); !leads || by == "" || o.Roll == "" || roll.ID != o.Roll {
		http.Error(w, "this node does not lead that roll-out", http.StatusConflict)
		return
	}
	r.stop(o.Roll, by)
	mesh.WriteSigned(w, req, peer, []byte("{}"))
}
