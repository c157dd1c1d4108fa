package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// longDrain is how long a backend may finish what it runs when its successor serves already: nobody waits for its end but
	// the next change.
	longDrain  = 10 * time.Minute
	othersLook = 500 * time.Millisecond
	// switchTime is how long [Config.BeforeSwitch] may hold up a change.
	switchTime = 30 * time.Second
)

// errNoRoom is the answer where nobody can tell.
var errNoRoom = errors.New("whether there is room for a second engine is not known here")

// awaitChange waits until no other backend of this machine changes, so that there is never more than one engine beyond
// what was planned, and takes the berth that the one before leaves free.
func (b *backend) awaitChange(life context.Context) bool {
	if !b.succeeds() {
		return true
	}
	e := b.engine
	e.mu.Lock()
	rank := b.rank
	e.mu.Unlock()
	if e.changing.take(life, 0, rank) != nil {
		return false
	}
	e.mu.Lock()
	b.changes = true
	b.name = otherBerth(b.id, b.before.name)
	e.mu.Unlock()
	return b.awaitOthers(life)
}

// awaitOthers waits a while for the model's other backends that have the program already, as one may just be started again.
func (b *backend) awaitOthers(life context.Context) bool {
	for end := time.Now().Add(b.patience()); time.Now().Before(end); {
		b.engine.mu.Lock()
		wait := b.entry.stumbling(b) != ""
		b.engine.mu.Unlock()
		if !wait {
			return true
		}
		if !sleep(life, othersLook) {
			return false
		}
	}
	return true
}

// succeeds reports whether another backend is still in its place.
func (b *backend) succeeds() bool {
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	return b.before != nil
}

// changed lets the next backend change, if this one was what it waits for.
func (b *backend) changed() {
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	if b.changes {
		b.changes = false
		b.engine.changing.give()
	}
}

// makeRoom makes sure that a successor's engine may be started: beside the one before, or, where both have no room, after
// its end. It is asked with the turn to load in hand, so nothing else is about to take what it counts on.
func (b *backend) makeRoom(life context.Context) error {
	e := b.engine
	e.mu.Lock()
	old := b.before
	e.mu.Unlock()
	if old == nil {
		return nil
	}
	none := errNoRoom
	if e.cfg.Room != nil {
		none = e.cfg.Room(life, b.model, b.gpus)
	}
	if none == nil {
		e.cfg.Log.Info("a new engine is loaded beside the one that serves", "backend", b.id)
		return nil
	}
	if life.Err() != nil {
		return context.Cause(life)
	}
	e.mu.Lock()
	if first := b.entry.stumbling(b); first != "" {
		e.mu.Unlock()
		return fmt.Errorf("%s does not come up with it: mend that first", first)
	}
	ok := b.takePlace()
	if ok {
		b.entry.line.Close(b.id)
		e.cfg.Changed()
	}
	e.mu.Unlock()
	if !ok {
		return errRetired
	}
	e.cfg.Log.Info("the engine that serves ends before the new one is loaded", "backend", b.id, "why", none)
	select {
	case <-old.done:
		return nil
	case <-life.Done():
		return context.Cause(life)
	}
}

// stumbling names a backend that has b's program already and does not serve; "" = none. It wants the lock held.
func (en *entry) stumbling(b *backend) string {
	for _, o := range en.backends {
		if o.id != b.id && o.readySince.IsZero() && sameModel(o.model, b.model) {
			return o.id
		}
	}
	return ""
}

// takePlace puts a successor in the place of the one before. It reports whether b is the model's backend now, and wants the
// lock held.
func (b *backend) takePlace() bool {
	old, en := b.before, b.entry
	if old == nil || old.next != b {
		return en.backend(b.id) == b
	}
	b.before, old.next, old.refused = nil, nil, ""
	en.backends[slices.Index(en.backends, old)] = b
	b.engine.part(old)
	return true
}

// replaced reports whether another engine has taken its place.
func (b *backend) replaced() bool {
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	return b.entry.backend(b.id) != b
}

// handOver is takePlace for a successor that is ready: the change is over when the one before has ended. It wants the lock held.
func (b *backend) handOver() bool {
	old := b.before
	if !b.takePlace() {
		return false
	}
	if old != nil {
		old.calm = true
		b.changes, old.changes = false, b.changes
	}
	return true
}

// hurry ends the calm of a backend on its way out: somebody waits for what it takes. It wants the lock held.
func (b *backend) hurry() {
	select {
	case <-b.waited:
	default:
		close(b.waited)
	}
}

// prepareSwitch lets what lies in the slots of the engine before be saved, if a file of it is of use in this one.
func (b *backend) prepareSwitch(ctx context.Context, p Props) {
	e := b.engine
	e.mu.Lock()
	old := b.before
	save := old != nil && e.cfg.BeforeSwitch != nil && !old.readySince.IsZero() && b.savesSlots() && old.savesSlots() &&
		b.kvTraits(p) == old.kvTraits(old.props)
	e.mu.Unlock()
	if !save {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, switchTime)
	defer cancel()
	e.cfg.BeforeSwitch(ctx, b.id)
}

// giveUp ends a successor that has not come up: the engine before serves on.
func (b *backend) giveUp(life context.Context, err error) {
	e := b.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	old := b.before
	if old == nil || old.next != b || life.Err() != nil {
		return
	}
	old.next, old.refused = nil, err.Error()
	e.part(b)
	e.cfg.Changed()
	e.cfg.Log.Warn("the new engine does not come up; the one before serves on", "backend", b.id, "error", err)
}
