package appliance

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
	"viiwork/update/rollout"
)

const (
	// updatePath is what members ask of each other's programs.
	updatePath = "/v1/update"
	// spareWithin is how long this node waits for another host of what it serves before it gives its own update up.
	spareWithin = 10 * time.Minute
	// moveWithin bounds the time in which caches of conversations are given away before the end.
	moveWithin = 2 * time.Minute
)

// updateOrder is what who leads a roll-out wants of a member.
type updateOrder struct {
	Token   string `json:"token"` // of its hold of the mesh's lock
	Roll    string `json:"roll"`
	Version string `json:"version"`
	Named   bool   `json:"named"`
}

// attempt is this node's own update, as a roll-out wants it.
type attempt struct {
	roll, act, fault string
	done, size       int64
}

// ordered answers the leader of a roll-out: this node's turn has come. To be told so again does no harm.
func (r *rollouts) ordered(f *fellows, w http.ResponseWriter, req *http.Request) {
	var o updateOrder
	peer, ok := f.signedWord(w, req, &o)
	if !ok {
		return
	}
	if rollout.CheckVersion(o.Version) != nil || o.Roll == "" || len(o.Roll) > 64 {
		http.Error(w, "the body is no order to update", http.StatusBadRequest)
		return
	}
	if !f.lock.Obeys(peer.ID, o.Token) {
		http.Error(w, "the sender does not hold the lock of the mesh", http.StatusConflict)
		return
	}
	r.begin(o)
	text, err := json.Marshal(r.program())
	if err != nil {
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	mesh.WriteSigned(w, req, peer, text)
}

// signedWord reads what a member says of updates. False when it was refused, and that answered.
func (f *fellows) signedWord(w http.ResponseWriter, req *http.Request, into any) (mesh.Peer, bool) {
	peer, err := f.verifier.Check(req)
	if err != nil {
		mesh.WriteRefusal(w, err)
		return peer, false
	}
	body, err := io.ReadAll(io.LimitReader(peer.VerifyBody(req.Body), maxAliasBody+1))
	if err != nil || len(body) > maxAliasBody || json.Unmarshal(body, into) != nil {
		http.Error(w, "the body is none of a member's about updates", http.StatusBadRequest)
		return peer, false
	}
	return peer, true
}

// begin has this node update itself, unless it does or did for that roll-out.
func (r *rollouts) begin(o updateOrder) {
	if r.install == nil || !rollout.Older(r.a.options.Version, o.Version) || r.install.Installed().Trial != "" { // that may ask Docker
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attempt.act != "" || r.attempt.roll == o.Roll && r.attempt.fault != "" {
		return
	}
	select {
	case r.orders <- o:
		r.attempt = attempt{roll: o.Roll, act: "beginning"}
	default: // nobody works: the node ends
	}
}

// work does what is ordered, one after the other, until ctx ends.
func (r *rollouts) work(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case o := <-r.orders:
			if err := r.update(ctx, o); err != nil {
				r.a.log.Error("this node is not updated", "version", o.Version, "error", err)
				r.say(attempt{roll: o.Roll, fault: cutText(err.Error())})
			}
		}
	}
}

func (r *rollouts) say(at attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempt = at
}

// update brings this node to a version. When it returns nil, the node ends.
func (r *rollouts) update(ctx context.Context, o updateOrder) error {
	say := func(act string) { r.say(attempt{roll: o.Roll, act: act}) }
	r.a.log.Info("this node is updated", "version", o.Version, "roll_out", o.Roll)
	if err := r.spared(ctx, say); err != nil {
		return err
	}
	say("fetching")
	err := r.install.Install(ctx, InstallOrder{Version: o.Version, Named: o.Named, Said: func(done, size int64) {
		r.say(attempt{roll: o.Roll, act: "fetching", done: done, size: size})
	}})
	if err != nil {
		return err
	}
	if err := r.spared(ctx, say); err != nil {
		return r.unbegun(o.Version, err)
	}
	say("moving conversations")
	drained := r.a.draining.Load() // by its owner
	r.a.Drain(true)
	moving, enough := context.WithTimeout(ctx, moveWithin)
	moved, of := r.a.caches.leave(moving)
	enough()
	r.a.log.Info("conversations have a second copy elsewhere", "moved", moved, "of", of)
	say("restarting")
	if err := r.install.Restart(ctx); err != nil {
		r.stays(drained)
		return r.unbegun(o.Version, err)
	}
	if err := r.end(ctx, o.Version); err != nil {
		r.stays(drained)
		return err
	}
	return nil
}

// unbegun is why a version that was installed is not begun with.
func (r *rollouts) unbegun(version string, why error) error {
	if r.install.Installed().Trial != "" {
		return fmt.Errorf("%s is installed and runs from the next start on: %w", version, why)
	}
	return fmt.Errorf("%s was tried and could run here: %w", version, why)
}

// stays is this node when it does not end after all: as it was.
func (r *rollouts) stays(drained bool) {
	r.a.caches.given.Store(false)
	r.a.Drain(drained)
}

// end waits for this node's end. Whoever ends it from outside may find that this cannot be, and take the version back.
func (r *rollouts) end(ctx context.Context, version string) error {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		if is := r.install.Installed(); is.Trial == "" {
			return fmt.Errorf("%s was taken back before it ran: %s", version, cmp.Or(is.BackWhy, is.Refuses, "nobody says why"))
		}
	}
}

// spared waits until somebody else serves what this node does.
func (r *rollouts) spared(ctx context.Context, say func(string)) error {
	for begun := time.Now(); ; {
		model := r.a.onlyHostOf()
		switch {
		case model == "":
			return nil
		case time.Since(begun) > spareWithin:
			return fmt.Errorf("this node is the only ready host of %s", model)
		}
		say("waiting: the only ready host of " + model)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

// onlyHostOf names a model that this node serves and nobody else could, "" if there is none.
func (a *Appliance) onlyHostOf() string {
	all := a.mesh.table.Snapshot()
	for _, name := range a.readyModels() {
		if !slices.ContainsFunc(all, func(n mesh.NodeState) bool {
			m, ok := n.Model(name)
			slots, _ := m.Slots()
			return ok && !n.Report.Draining && slots > 0
		}) {
			return name
		}
	}
	return ""
}

// readyModels are those this node serves at this moment.
func (a *Appliance) readyModels() []string {
	names := []string{}
	if a.draining.Load() {
		return names
	}
	for _, m := range a.engine.Snapshot() {
		if slices.ContainsFunc(m.Backends, serving) {
			names = append(names, m.Model.Name)
		}
	}
	return names
}

// program tells how this node stands with its program.
func (r *rollouts) program() status.Program {
	p := status.Program{
		Version: r.a.options.Version, Ready: r.a.readyModels(), Draining: r.a.draining.Load(), Auto: r.a.current().Update.Auto,
		Refuses: "its program was built to be updated by hand, or is not where updates are put: see docs/updates.md there",
	}
	var is Installed
	if r.install != nil {
		is = r.install.Installed()
		p.Refuses = is.Refuses
		if f := r.a.mesh.current(); f != nil {
			p.Refuses = cmp.Or(p.Refuses, f.lock.Mute())
		}
	}
	p.Bad, p.Back, p.BackWhy = is.Bad, is.Back, is.BackWhy
	r.mu.Lock()
	defer r.mu.Unlock()
	p.Act, p.Done, p.Size, p.Roll, p.Fault = r.attempt.act, r.attempt.done, r.attempt.size, r.attempt.roll, r.attempt.fault
	if p.Act == "" && is.Trial != "" {
		p.Act = is.Trial
	}
	return p
}
