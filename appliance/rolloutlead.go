package appliance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"viiwork/appliance/config"
	"viiwork/appliance/mesh"
	"viiwork/update/rollout"
)

// lead is one hold of the mesh's lock.
func (r *rollouts) lead(ctx context.Context, f *fellows) {
	held, note, err := f.lock.Take(ctx)
	r.mu.Lock()
	w := r.wish
	r.wish, r.leads, r.begins = nil, err == nil, w != nil && !w.end && err == nil
	news := err != nil && r.fault != err.Error()
	if err != nil {
		r.fault = err.Error()
	}
	r.mu.Unlock()
	if news { // it is tried again and again
		r.a.log.Warn("this node cannot lead the roll-out", "error", err)
	}
	if err != nil {
		return
	}
	defer func() {
		if ctx.Err() == nil { // else this node ends, and takes the lock back when it is there again
			held.Free(ctx)
		}
	}()
	roll, err := r.take(ctx, f, w, readRoll(note))
	if err == nil && roll.Stage == rollout.Running {
		err = r.follow(ctx, f, held, roll)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen, r.fault, r.begins, r.leads = nil, "", false, false
	if r.halt != nil && r.halt.roll == "" {
		r.halt = nil // what was about to begin has not
	}
	if err != nil && ctx.Err() == nil {
		r.fault = err.Error()
		r.a.log.Warn("this node does not lead the roll-out any more", "error", err)
	}
}

// take finds what is to be led: what is not at its end comes first, whoever began it.
func (r *rollouts) take(ctx context.Context, f *fellows, w *wish, last rollout.Roll) (rollout.Roll, error) {
	seen := r.look(ctx, f)
	switch {
	case w != nil && w.end && r.halted(last).Halted.IsZero(): // what was to be ended has ended
		return rollout.Roll{}, nil
	case last.Stage == rollout.Running:
		r.a.log.Info("the roll-out goes on", "version", last.Version)
		return last.LedBy(f.id, r.a.current().Node.Name, time.Now()), nil
	case w == nil || w.end:
		return rollout.Roll{}, nil
	case w.auto && last.Stage == rollout.Stopped && last.Version == w.version: // this node had not heard of it
		return rollout.Roll{}, nil
	case w.catch && last.Behind(seen) == nil:
		return rollout.Roll{}, nil
	case w.catch || last.Stage == rollout.Ended && last.Version == w.version && w.auto:
		return last.Again(), nil
	}
	r.a.log.Info("a roll-out begins", "version", w.version, "by_itself", w.auto)
	return rollout.Begin(r.order(f, *w), seen)
}

func (r *rollouts) order(f *fellows, w wish) rollout.Order {
	return rollout.Order{ID: newRollID(), Version: w.version, Lead: f.id, LeadName: r.a.current().Node.Name, Auto: w.auto, Now: time.Now()}
}

func newRollID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// follow leads it to its end. What it decides counts once a majority has it, and only then it is done.
func (r *rollouts) follow(ctx context.Context, f *fellows, held *mesh.Held, roll rollout.Roll) error {
	tick := time.NewTicker(r.pace(leadEvery))
	defer tick.Stop()
	var kept []byte
	var said, failing time.Time
	for {
		window, _ := config.ParseWindow(r.a.current().Update.Window) // it was checked
		next, step := r.halted(roll).Next(time.Now(), !roll.Auto || window.Open(time.Now()), r.look(ctx, f))
		note, err := json.Marshal(next)
		if err != nil {
			return fmt.Errorf("noting how far the roll-out is: %w", err)
		}
		if string(note) != string(kept) || time.Since(said) >= sayEvery {
			if err := held.Note(ctx, note); err != nil {
				if failing.IsZero() {
					failing = time.Now()
				}
				if !errors.Is(err, mesh.ErrLockMinority) || time.Since(failing) > sayEvery || !r.pause(ctx, err) {
					return err
				}
				continue // what was decided does not count
			}
			kept, said, failing = note, time.Now(), time.Time{}
			r.noted(next)
		}
		if next.Stage != roll.Stage || next.Why != roll.Why {
			r.a.log.Info("roll-out", "version", next.Version, "stage", next.Stage, "why", next.Why)
		}
		roll = next
		switch {
		case step.Act == rollout.End:
			return nil
		case step.Act == rollout.Start && held.Fresh():
			r.start(ctx, f, updateOrder{Token: held.Token(), Roll: roll.ID, Version: roll.Version, Named: !roll.Auto}, step.Member)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// noted says that a majority has it as it is.
func (r *rollouts) noted(roll rollout.Roll) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault, r.begins = "", false
	if !roll.Halted.IsZero() {
		r.halt = nil
	}
}

// pause notes why it does not go on, and waits a moment. False when ctx has ended.
func (r *rollouts) pause(ctx context.Context, why error) bool {
	r.mu.Lock()
	r.fault = why.Error()
	r.mu.Unlock()
	select {
	case <-ctx.Done():
		return false
	case <-time.After(r.pace(leadEvery)):
		return true
	}
}

// start tells a member that its turn has come. That it heard shows when it is looked at next.
func (r *rollouts) start(ctx context.Context, f *fellows, o updateOrder, id string) {
	if id == f.id {
		r.begin(o)
		return
	}
	body, err := json.Marshal(o)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	for _, m := range alive(f.cluster) {
		if m.ID != id {
			continue
		}
		resp, err := f.client.Post(ctx, m, updatePath, body)
		if err != nil {
			r.a.log.Debug("telling a member that its turn has come", "member", m.Name, "error", err)
			return
		}
		_ = resp.Body.Close()
	}
}
