package gateway

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// fleetCapacityDoc is GET /v1/fleet/capacity.
type fleetCapacityDoc struct {
	View       string               `json:"view"` // the node whose picture this is
	StaleAfter float64              `json:"stale_after_s"`
	Models     []fleetCapacityModel `json:"models"`
}

type fleetCapacityModel struct {
	Name    string `json:"name"`
	AliasOf string `json:"alias_of,omitempty"`
	fleetCapacityFigures
	Queued *int                `json:"queued,omitempty"`
	Hosts  []fleetCapacityHost `json:"hosts"`
}

type fleetCapacityHost struct {
	Node string `json:"node"`
	API  string `json:"api,omitempty"` // its address; absent for the node that answers
	fleetCapacityFigures
	Queued *int   `json:"queued,omitempty"`  // requests in its line, whichever node they came in by
	WaitMS *int64 `json:"wait_ms,omitempty"` // until one more would have a slot
	AgeMS  int64  `json:"age_ms"`            // since it last spoke
	Stale  bool   `json:"stale"`
}

// fleetCapacityFigures are absent while not known, never 0 then.
type fleetCapacityFigures struct {
	Slots   *int `json:"slots,omitempty"`
	Busy    *int `json:"busy,omitempty"`
	Free    *int `json:"free,omitempty"`
	Context *int `json:"ctx,omitempty"`
}

func figures(slots, free *int, context int) fleetCapacityFigures {
	f := fleetCapacityFigures{Slots: slots, Free: free}
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
	doc := fleetCapacityDoc{View: g.cfg.Node, StaleAfter: g.cfg.StaleAfter.Seconds(), Models: []fleetCapacityModel{}}
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

func (g *Gateway) capacityOf(m fleetModel) fleetCapacityModel {
	slots, free := m.totals()
	out := fleetCapacityModel{Name: m.name, AliasOf: m.aliasOf, Hosts: []fleetCapacityHost{}, fleetCapacityFigures: figures(slots, free, m.context())}
	for _, h := range m.hosts {
		host := fleetCapacityHost{
			Node: h.node, API: h.addr, fleetCapacityFigures: figures(h.slots, h.free, h.context), AgeMS: h.age.Milliseconds(), Stale: h.stale,
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
