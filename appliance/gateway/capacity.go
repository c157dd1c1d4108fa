package gateway

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/status"
)

func figures(slots, free *int, context int) status.FleetFigures {
	f := status.FleetFigures{Slots: slots, Free: free}
	if slots != nil && free != nil {
		busy := *slots - *free
		f.Busy = &busy
	}
	if context > 0 {
		f.Context = &context
	}
	return f
}

// fleetCapacity tells a consumer how many requests it may have under way at one time.
func (g *Gateway) fleetCapacity(c echo.Context) error {
	doc := status.Fleet{View: g.cfg.Node, StaleAfter: g.cfg.StaleAfter.Seconds(), Models: []status.FleetModel{}}
	models := g.fleet() // without aliases, or what they lead to would count twice
	if wanted := c.QueryParam("model"); wanted != "" {
		m, ok := g.find(wanted)
		if !ok {
			return g.unknownModel(wanted)
		}
		models = []fleetModel{m}
	}
	for _, m := range models {
		doc.Models = append(doc.Models, g.capacityOf(m))
	}
	return c.JSON(http.StatusOK, doc)
}

// Fleet tells how much each model of the mesh can take, this node's own first.
func (g *Gateway) Fleet() []status.FleetModel {
	all := []status.FleetModel{}
	for _, m := range g.fleet() {
		all = append(all, g.capacityOf(m))
	}
	return all
}

func (g *Gateway) capacityOf(m fleetModel) status.FleetModel {
	slots, free := m.totals()
	out := status.FleetModel{Name: m.name, AliasOf: m.aliasOf, Hosts: []status.FleetHost{}, FleetFigures: figures(slots, free, m.context())}
	for _, h := range m.hosts {
		host := status.FleetHost{
			Node: h.node, API: h.addr, FleetFigures: figures(h.slots, h.free, h.context), AgeMS: h.age.Milliseconds(), Stale: h.stale,
		}
		if !h.stale {
			out.Queued = plus(out.Queued, &h.waiting)
			host.Queued = &h.waiting
		}
		if wait, known := h.wait(); known {
			host.WaitMS = &wait
		}
		out.Hosts = append(out.Hosts, host)
	}
	return out
}
