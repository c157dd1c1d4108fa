package engine

import "slices"

// A backend that serves, and whose model is given nothing but another program, gets a successor: a second engine of the
// same id, which is loaded and proved beside the first one where there is room for both, and only then takes its place.
// The model's line stays as it is, so nobody in it notices. A successor that does not come up is removed, and the first one
// serves on. Where there is no room the first one leaves before the second one loads.

// onlyProgram reports whether two models differ in nothing but what their engines are started from.
func onlyProgram(a, b Model) bool {
	a.Image, a.Binary = b.Image, b.Binary
	return sameModel(a, b)
}

// change gives a wanted model another program: the backends that serve get successors, the others are replaced at once. It
// wants the lock held and returns the new backends.
func (e *Engine) change(en *entry, m Model) (fresh []*backend) {
	en.model = m
	for i, b := range en.backends {
		if b.next != nil && !sameModel(b.next.model, m) {
			e.part(b.next)
			b.next = nil
		}
		if b.next != nil {
			continue
		}
		b.refused = ""
		if sameModel(b.model, m) {
			continue
		}
		nb := newBackend(e, en, i, b.gpus)
		fresh = append(fresh, nb)
		if b.readySince.IsZero() {
			en.backends[i] = nb
			en.line.Close(b.id)
			e.part(b)
			continue
		}
		b.next, nb.before = nb, b
	}
	return fresh
}

// part sends a backend to its end. It wants the lock held.
func (e *Engine) part(b *backend) {
	if !b.launched {
		b.launched = true
		close(b.done)
		return
	}
	b.state = StateDraining
	b.cancel(errRetired)
	e.retiring = append(e.retiring, b)
}

// Change is a backend on its way from one engine to another.
type Change struct {
	// State is that of the new engine, which waits, is loaded or has failed, while the backend's own is that of the one before;
	// StateDraining is of the one before, which finishes what it runs.
	State    State
	Progress float64 // 0…1 while loading, -1 unknown
	Err      string  // why it failed
}

// changing is what the backend changes from or to; nil = nothing. It wants the lock held.
func (b *backend) changing() *Change {
	switch {
	case b.next != nil:
		return &Change{State: b.next.state, Progress: b.next.progress}
	case b.refused != "":
		return &Change{State: StateFailed, Progress: -1, Err: b.refused}
	case slices.ContainsFunc(b.engine.retiring, func(o *backend) bool { return o.entry == b.entry && o.id == b.id && o.calm && !o.isDone() }):
		return &Change{State: StateDraining, Progress: -1}
	}
	return nil
}
