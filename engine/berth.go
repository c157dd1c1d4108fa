package engine

import (
	"context"
	"fmt"
	"strings"
)

// secondBerth ends the name of every other engine of a backend. Two that live side by side need a record or a container
// name, a key and a folder each. Ids end in a digit, so no other backend is called that.
const secondBerth = "b"

// berths are the names that engines of a backend go by, in turn.
func berths(id string) [2]string { return [2]string{id, id + secondBerth} }

// otherBerth is the one that a backend's engine of that name leaves free.
func otherBerth(id, name string) string {
	if all := berths(id); name == all[0] {
		return all[1]
	}
	return id
}

// berthed is the backend whose engines may have that name; it wants the lock held.
func (e *Engine) berthed(name string) *backend {
	if b := e.backend(name); b != nil {
		return b
	}
	return e.backend(strings.TrimSuffix(name, secondBerth))
}

// backend wants the lock held.
func (e *Engine) backend(id string) *backend {
	for _, en := range e.order {
		if b := en.backend(id); b != nil {
			return b
		}
	}
	return nil
}

// adopt takes over what an earlier run left for the backend, and returns nil where that is nothing of use; next is the plan
// for a start then. Two engines are left where a node ended in the middle of a change: the one that is as it would be
// started now is kept, the other one ended.
func (b *backend) adopt(life context.Context, r Runner, p plan) (t *term, next plan, err error) {
	e := b.engine
	if b.succeeds() {
		return nil, p, nil
	}
	for _, name := range berths(b.id) {
		old := e.takeFound(name)
		if old == nil {
			continue
		}
		if t == nil {
			if p, err = b.inBerth(life, r, name, p); err != nil {
				e.keep(b.model.Runner, name, old)
				return nil, p, fault{err}
			}
			if old.Record().Hash == p.spec.Hash && !p.newKey {
				e.cfg.Log.Info("adopting a running engine", "backend", b.id, "process", old.Record().ID)
				b.started, t = true, p.term(old, true, func() {})
				continue
			}
		}
		e.cfg.Log.Info("replacing an engine that was started otherwise", "backend", b.id, "process", old.Record().ID)
		if err := b.end(life, old); err != nil && t == nil {
			return nil, p, fmt.Errorf("stopping the engine before: %w", err)
		}
	}
	if t == nil {
		if p, err = b.inBerth(life, r, b.id, p); err != nil {
			return nil, p, fault{err}
		}
	}
	e.clearHome(otherBerth(b.id, p.spec.Backend))
	return t, p, nil
}

// inBerth makes p a plan for that berth. One that is for it already stays: only the first tells that its key was lost.
func (b *backend) inBerth(ctx context.Context, r Runner, name string, p plan) (plan, error) {
	if p.spec.Backend == name {
		return p, nil
	}
	b.engine.mu.Lock()
	b.name = name
	b.engine.mu.Unlock()
	return b.prepare(ctx, r)
}
