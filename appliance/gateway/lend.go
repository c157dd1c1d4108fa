package gateway

import (
	"errors"
	"net/http"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/engine"
)

// DeskConfig is how this node's slots are lent to members; the desk that is made of it goes into [Mesh].
func (g *Gateway) DeskConfig(v *mesh.Verifier, t *mesh.Table) mesh.DeskConfig[*engine.Lease] {
	return mesh.DeskConfig[*engine.Lease]{Join: g.lend, Explain: refusedSeat, Expect: g.expect, Verifier: v, Table: t, Log: g.log}
}

// lend takes a slot for a member, or a place in the line.
func (g *Gateway) lend(a mesh.Ask) (mesh.Place[*engine.Lease], error) {
	r := engine.Request{Model: a.Model, Prefer: a.Prefer, Session: a.Session, NoWait: a.WaitMS <= 0}
	if len(a.Backends) > 0 {
		r.Backends = a.Backends
	}
	t, err := g.cfg.Engine.Queue(r)
	if err != nil {
		return nil, err // not t: a nil ticket in it would be a place
	}
	return t, nil
}

func (g *Gateway) expect(model string, ahead int) time.Duration {
	if m, ok := g.local(model); ok {
		return m.ExpectedWait(ahead)
	}
	return -1
}

// refusedSeat says what an engine's refusal means to a member.
func refusedSeat(err error) *mesh.SeatRefused {
	e := asError(err)
	r := &mesh.SeatRefused{Status: e.Status, Code: e.Code, Message: e.Message, RetryAfter: e.RetryAfter}
	switch {
	case errors.Is(err, engine.ErrUnknownModel):
		r.Status, r.Code, r.Message = http.StatusNotFound, "model_not_found", "this node does not serve the model"
	case errors.Is(err, engine.ErrFull):
		r.Code, r.Message = "node_full", "this node has no free slot for the model"
	case errors.Is(err, engine.ErrLineFull):
		r.Code, r.Message = mesh.CodeLineFull, "as many requests wait for the model here as may"
	}
	return r
}
