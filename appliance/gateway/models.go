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
	Context int         `json:"context_length"` // tokens one request can have: the smallest of the ready hosts'
	Viiwork modelDetail `json:"viiwork"`
}

// modelDetail says where a model is. Figures that are not known yet are absent.
type modelDetail struct {
	AliasOf string      `json:"alias_of,omitempty"` // the model, where this is an alias
	State   string      `json:"state"`              // the best of its hosts', missing where no node has it
	Slots   *int        `json:"slots,omitempty"`
	Free    *int        `json:"free,omitempty"`
	Hosts   []modelHost `json:"hosts"`
}

type modelHost struct {
	Node    string `json:"node"`
	State   string `json:"state"`
	Slots   *int   `json:"slots,omitempty"`
	Free    *int   `json:"free,omitempty"`
	Context int    `json:"context,omitempty"`
	Digest  string `json:"digest,omitempty"` // of the model file
	AgeMS   *int64 `json:"age_ms,omitempty"` // of another node: since it last spoke
}

func (g *Gateway) listModels(c echo.Context) error {
	list := modelList{Object: "list", Data: []modelItem{}}
	for _, m := range g.listed() {
		list.Data = append(list.Data, g.modelItem(m))
	}
	return c.JSON(http.StatusOK, list)
}

// getModel answers for one id, which may hold slashes, plain or as %2F.
func (g *Gateway) getModel(c echo.Context) error {
	id := strings.TrimPrefix(c.Request().URL.Path, "/v1/models/")
	if m, ok := g.find(id); ok {
		return c.JSON(http.StatusOK, g.modelItem(m))
	}
	return g.unknownModel(id)
}

func (g *Gateway) modelItem(m fleetModel) modelItem {
	item := modelItem{ID: m.name, Object: "model", Created: g.born.Unix(), OwnedBy: "viiwork", Context: m.context()}
	item.Viiwork.Slots, item.Viiwork.Free = m.totals()
	item.Viiwork.AliasOf, item.Viiwork.Hosts = m.aliasOf, []modelHost{}
	best := -1
	for i, h := range m.hosts {
		if best < 0 || rank(engine.State(h.state)) < rank(engine.State(m.hosts[best].state)) {
			best = i
		}
		host := modelHost{Node: h.node, State: h.state, Slots: h.slots, Free: h.free, Context: h.context, Digest: h.digest}
		if h.remote {
			age := h.age.Milliseconds()
			host.AgeMS = &age
		}
		item.Viiwork.Hosts = append(item.Viiwork.Hosts, host)
	}
	if item.Viiwork.State = "missing"; best >= 0 {
		item.Viiwork.State = m.hosts[best].state
	}
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
	case engine.StateFailed:
		return 6
	}
	return 7
}

// unknownModel names the model that was probably meant.
func (g *Gateway) unknownModel(name string) *Error {
	e := &Error{Status: http.StatusNotFound, Code: "model_not_found", Param: "model"}
	var names []string
	for _, m := range g.listed() {
		if len(m.hosts) > 0 {
			names = append(names, m.name)
		}
	}
	near := ""
	if len(name) <= maxModelName {
		near = nearest(name, names)
	}
	switch {
	case near != "":
		e.Message = "there is no model \"" + shown(name) + "\" here; did you mean \"" + near + "\"?"
	case len(names) == 0:
		e.Message = "there is no model \"" + shown(name) + "\" here; no node that answers serves any model now"
	default:
		e.Message = "there is no model \"" + shown(name) + "\" here; GET /v1/models lists those there are"
	}
	return e
}

// shown bounds a name that a stranger chose.
func shown(name string) string {
	if len(name) > 200 {
		return strings.ToValidUTF8(name[:200], "") + "…"
	}
	return name
}
