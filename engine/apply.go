package engine

import (
	"errors"
	"reflect"
	"slices"
	"time"
)

// errRetired ends the life of a backend whose model was removed or changed.
var errRetired = errors.New("removed from the configuration")

// entry is one wanted model with its line.
type entry struct {
	model    Model
	line     *Line
	backends []*backend
	hold     hold // of all its slots
}

func (en *entry) backend(id string) *backend {
	for _, b := range en.backends {
		if b.id == id {
			return b
		}
	}
	return nil
}

// all are its backends and their successors.
func (en *entry) all() []*backend {
	all := slices.Clone(en.backends)
	for _, b := range en.backends {
		if b.next != nil {
			all = append(all, b.next)
		}
	}
	return all
}

// entry wants the lock held.
func (e *Engine) entry(model string) *entry {
	for _, en := range e.order {
		if en.model.Name == model {
			return en
		}
	}
	return nil
}

// Apply sets the models to be served; before Run they are the boot set. New models start, removed ones finish what they
// run (30 s at most) and stop, changed ones are replaced, equal ones are not touched. One that is given nothing but another
// program keeps its line, and its backends change one after the other; what did not come up is tried again. Of two models
// with one name the first counts.
func (e *Engine) Apply(models []Model) {
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.order
	e.order = make([]*entry, 0, len(models))
	e.retiring = slices.DeleteFunc(e.retiring, (*backend).isDone)
	var fresh []*backend
	for _, m := range models {
		if e.entry(m.Name) != nil {
			continue
		}
		i := slices.IndexFunc(old, func(en *entry) bool { return onlyProgram(en.model, m) })
		if i >= 0 {
			e.order = append(e.order, old[i])
			fresh = append(fresh, e.change(old[i], m)...)
			continue
		}
		en := e.newEntry(m)
		e.order, fresh = append(e.order, en), append(fresh, en.backends...)
	}
	for _, en := range old {
		if !slices.Contains(e.order, en) {
			e.retire(en)
		}
	}
	e.rank()
	for _, b := range fresh {
		b.after = e.inTheWayOf(b)
	}
	select {
	case e.applied <- struct{}{}:
	default:
	}
}

func (e *Engine) newEntry(m Model) *entry {
	en := &entry{model: m}
	en.line = NewLine(e.cfg.QueueMax, en.granted)
	specs := m.Backends
	if len(specs) == 0 {
		specs = []BackendSpec{{}}
	}
	for n, spec := range specs {
		en.backends = append(en.backends, newBackend(e, en, n, spec.GPUs))
	}
	return en
}

// retire sends the waiters of a model away and its backends to their end.
func (e *Engine) retire(en *entry) {
	err := ErrUnknownModel
	if e.entry(en.model.Name) != nil {
		err = ErrNotReady
	}
	en.line.Refuse(err)
	for _, b := range en.all() {
		en.line.Close(b.id)
		e.part(b)
	}
}

// rank numbers the backends in the owner's order, which is the order they load in.
func (e *Engine) rank() {
	n := 0
	for _, en := range e.order {
		for _, b := range en.backends {
			b.rank = n
			if b.next != nil {
				b.next.rank = n
			}
			n++
		}
	}
}

// inTheWayOf lists the ends to wait for before b may start: of its namesake, and of whoever sits on its cards.
func (e *Engine) inTheWayOf(b *backend) []<-chan struct{} {
	var ends []<-chan struct{}
	for _, old := range e.retiring {
		if old.isDone() {
			continue
		}
		shares := old.model.Accel == b.model.Accel &&
			slices.ContainsFunc(b.gpus, func(g int) bool { return slices.Contains(old.gpus, g) })
		if old.id == b.id || shares {
			ends = append(ends, old.done)
			if b.before == nil {
				old.hurry()
			}
		}
	}
	return ends
}

// sameModel compares two models; an empty list and none are the same.
func sameModel(a, b Model) bool { return reflect.DeepEqual(plain(a), plain(b)) }

func plain(m Model) Model {
	if len(m.Args) == 0 {
		m.Args = nil
	}
	if len(m.Env) == 0 {
		m.Env = nil
	}
	if len(m.SplitWeights) == 0 {
		m.SplitWeights = nil
	}
	specs := make([]BackendSpec, 0, len(m.Backends))
	for _, s := range m.Backends {
		if len(s.GPUs) == 0 {
			s.GPUs = nil
		}
		specs = append(specs, s)
	}
	m.Backends = specs
	return m
}

// drainTime is how long a removed backend may finish what it runs when others wait for its end.
const drainTime = 30 * time.Second
