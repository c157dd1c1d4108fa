package gateway

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"viiwork/engine"
)

// modelList is GET /v1/models.
type modelList struct {
	Object string      `json:"object"`
	Data   []modelItem `json:"data"`
}

type modelItem struct {
	ID      string      `json:"id"`
	Object  string      `json:"object"`
	Created int64       `json:"created"`
	OwnedBy string      `json:"owned_by"`
	Context int         `json:"context_length"` // tokens one request can have
	Viiwork modelDetail `json:"viiwork"`
}

// modelDetail says where a model is. Figures that are not known yet are absent.
type modelDetail struct {
	State string      `json:"state"` // the best of its backends'
	Slots *int        `json:"slots,omitempty"`
	Free  *int        `json:"free,omitempty"`
	Hosts []modelHost `json:"hosts"`
}

type modelHost struct {
	Node    string `json:"node"`
	Slots   *int   `json:"slots,omitempty"`
	Free    *int   `json:"free,omitempty"`
	Context int    `json:"context"`
}

func (g *Gateway) listModels(c echo.Context) error {
	list := modelList{Object: "list", Data: []modelItem{}}
	for _, m := range g.cfg.Engine.Snapshot() {
		list.Data = append(list.Data, g.modelItem(m))
	}
	return c.JSON(http.StatusOK, list)
}

// getModel answers for one id, which may hold slashes, plain or as %2F.
func (g *Gateway) getModel(c echo.Context) error {
	id := strings.TrimPrefix(c.Request().URL.Path, "/v1/models/")
	for _, m := range g.cfg.Engine.Snapshot() {
		if m.Model.Name == id {
			return c.JSON(http.StatusOK, g.modelItem(m))
		}
	}
	return g.unknownModel(id)
}

func (g *Gateway) modelItem(m engine.ModelState) modelItem {
	context, slots, free := m.SlotContext(), 0, 0
	best := engine.StateFailed
	ready := false
	for _, b := range m.Backends {
		if rank(b.State) < rank(best) {
			best = b.State
		}
		if !serving(b.State) {
			continue
		}
		ready = true
		slots += len(b.Slots)
		for _, s := range b.Slots {
			if s.State == "free" {
				free++
			}
		}
	}
	item := modelItem{ID: m.Model.Name, Object: "model", Created: g.born.Unix(), OwnedBy: "viiwork", Context: context}
	host := modelHost{Node: g.cfg.Node, Context: context}
	if ready {
		host.Slots, host.Free = &slots, &free
	}
	item.Viiwork = modelDetail{State: string(best), Slots: host.Slots, Free: host.Free, Hosts: []modelHost{host}}
	return item
}

func serving(s engine.State) bool { return s == engine.StateReady || s == engine.StateBusy }

// rank orders states from the most to the least useful.
func rank(s engine.State) int {
	switch s {
	case engine.StateReady:
		return 0
	case engine.StateBusy:
		return 1
	case engine.StateLoading:
		return 2
	case engine.StateStarting:
		return 3
	case engine.StateRestarting, engine.StateSilent:
		return 4
	case engine.StateDraining:
		return 5
	}
	return 6
}

// unknownModel names the model that was probably meant.
func (g *Gateway) unknownModel(name string) *Error {
	e := &Error{Status: http.StatusNotFound, Code: "model_not_found", Param: "model"}
	var names []string
	for _, m := range g.cfg.Engine.Snapshot() {
		names = append(names, m.Model.Name)
	}
	shown := name
	if len(shown) > 200 {
		shown = shown[:200] + "…"
	}
	near := ""
	if len(name) <= maxModelName {
		near = nearest(name, names)
	}
	switch {
	case near != "":
		e.Message = "there is no model \"" + shown + "\" here; did you mean \"" + near + "\"?"
	case len(names) == 0:
		e.Message = "there is no model \"" + shown + "\" here; this node serves no models"
	default:
		e.Message = "there is no model \"" + shown + "\" here; GET /v1/models lists those there are"
	}
	return e
}
