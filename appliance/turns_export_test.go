package appliance

import (
	"viiwork/appliance/status"
	"viiwork/engine"
)

// Turns are those of models that change to another image.
type Turns struct{ turns }

func (t *Turns) Want(m []engine.Model, now []engine.ModelState) []engine.Model { return t.want(m, now) }
func (t *Turns) Next(now []engine.ModelState) []engine.Model                   { return t.next(now) }
func (t *Turns) Due(now []engine.ModelState) bool                              { return t.due(now) }
func (t *Turns) Warning() []status.Warning                                     { return t.warning() }
