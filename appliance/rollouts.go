package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"viiwork/appliance/status"
	"viiwork/update/rollout"
)

const (
	leadEvery = 2 * time.Second  // how often who leads looks at the members
	sayEvery  = 20 * time.Second // how often it says that it is still there
	tryEvery  = 10 * time.Second // how often it tries to lead again after it could not
)

// rollouts is this node's part in bringing the mesh to another version: it may lead a roll-out, and does its own turn.
type rollouts struct {
	a       *Appliance
	install Installer // nil = this program does not replace itself
	orders  chan updateOrder
	wake    chan struct{} // holds one: somebody wants something
	halts   chan struct{} // holds one: somebody wants an end
	reading reading

	mu      sync.Mutex // guards what follows
	wish    *wish
	begins  bool // what was wished is not noted yet
	attempt attempt
	seen    map[string]status.Program // by id, as the leader has heard
	fault   string                    // why this node does not lead though it should
	leads   bool                      // it holds the lock of the mesh
	halt    *halt                     // a person's word that who leads has not taken yet
}

// wish is what somebody wants to be led.
type wish struct {
	version string
	named   bool // by a person: also one that was taken back before
	auto    bool
	catch   bool // only those who were off
	end     bool // only what is under way, so that it ends
}

// newRollouts runs with the mesh of a.
func newRollouts(a *Appliance) *rollouts {
	r := &rollouts{a: a, install: a.options.Installer, orders: make(chan updateOrder, 1), wake: make(chan struct{}, 1), halts: make(chan struct{}, 1)}
	a.mesh.lead = r.run
	return r
}

// run leads when it is this node's to lead, until ctx ends.
func (r *rollouts) run(ctx context.Context, f *fellows) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.lock.Run(ctx) })
	g.Go(func() error { return r.work(ctx) })
	g.Go(func() error { return r.insist(ctx, f) })
	g.Go(func() error {
		for r.await(ctx) {
			r.lead(ctx, f)
		}
		return nil
	})
	if r.install != nil {
		g.Go(func() error { return r.watch(ctx) })
	}
	return g.Wait()
}

// pace is how often something is done: as usual, or as often as it is looked out where that is set.
func (r *rollouts) pace(usual time.Duration) time.Duration {
	if r.a.options.Lookout <= 0 {
		return usual
	}
	return min(usual, 2*r.a.options.Lookout)
}

// await waits until there is something to lead: what somebody wants, or what this node led before it was started anew. False
// when ctx ends.
func (r *rollouts) await(ctx context.Context) bool {
	for first := true; ; first = false {
		wait := time.NewTimer(r.pace(tryEvery))
		if first { // gossip needs a moment after a start
			wait.Reset(r.pace(leadEvery))
		}
		select {
		case <-ctx.Done():
			return false
		case <-r.wake:
		case <-wait.C:
		}
		wait.Stop()
		roll, _ := r.known()
		r.mu.Lock()
		wanted := r.wish != nil
		r.mu.Unlock()
		if wanted || roll.Stage == rollout.Running && roll.Lead == r.a.mesh.current().id {
			return true
		}
	}
}

// want has this node lead.
func (r *rollouts) want(w wish) {
	r.mu.Lock()
	r.wish, r.fault = &w, ""
	r.mu.Unlock()
	nudge(r.wake)
}

// nudge puts something into a channel that holds one.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// known is the last roll-out that this node knows of, and whether somebody leads at this moment. Its members are everybody's: who
// changes them has a copy.
func (r *rollouts) known() (roll rollout.Roll, held bool) {
	f := r.a.mesh.current()
	if f == nil {
		return rollout.Roll{}, false
	}
	v := f.lock.View()
	return r.reading.of(v.Note), v.Owner != ""
}

// reading is the last note that was read. Pages ask each second, and a note is a line for each member.
type reading struct {
	mu   sync.Mutex // guards what follows
	note []byte
	roll rollout.Roll
}

func (r *reading) of(note []byte) rollout.Roll {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !bytes.Equal(note, r.note) { // of one and the same slice that is known at once
		r.note, r.roll = note, readRoll(note)
	}
	return r.roll
}

// readRoll reads a note of the mesh's lock; one that makes no sense is none.
func readRoll(note []byte) (r rollout.Roll) {
	if len(note) == 0 || json.Unmarshal(note, &r) != nil || !r.Sound() {
		return rollout.Roll{}
	}
	cut(&r)
	return r
}
