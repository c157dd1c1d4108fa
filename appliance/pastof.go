package appliance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/history"
	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
)

// pastPath is what members ask for of a node's history, requestPath for what it knows of a request.
const (
	pastPath    = "/v1/view/history"
	requestPath = "/v1/view/request"
)

// getHistory tells figures over time, of any node: ?node=NAME&window=24h&series=A,B.
func (a *Appliance) getHistory(c echo.Context) error {
	q := url.Values{"window": {c.QueryParam("window")}, "series": {c.QueryParam("series")}}
	node := c.QueryParam("node")
	if node == "" || node == a.current().Node.Name {
		return c.JSON(http.StatusOK, a.series(q))
	}
	m, ok := a.named(node)
	if !ok {
		return errNoNode
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), askFor)
	defer cancel()
	var past status.Series
	if err := a.askMember(ctx, asked{m, pastPath, q}, &past); err != nil {
		a.log.Debug("asking a member for its history", "member", m.Name, "error", err)
		past = status.Series{} // it does not tell: no figure is known
	}
	past.Node = m.Name
	return c.JSON(http.StatusOK, history.Aligned(past, time.Now(), q.Get("window") == "24h"))
}

// series is this node's own history, as far as it is asked for.
func (a *Appliance) series(q url.Values) status.Series {
	past := a.past.Series(q.Get("window") == "24h")
	past.Node = a.current().Node.Name
	if only := q.Get("series"); only != "" {
		names := strings.Split(only, ",")
		past.Lines = slices.DeleteFunc(past.Lines, func(l status.Line) bool { return !slices.Contains(names, l.Name) })
	}
	return past
}

// named is the living member of that name.
func (a *Appliance) named(name string) (mesh.Member, bool) {
	all := a.others()
	i := slices.IndexFunc(all, func(m mesh.Member) bool { return m.Name == name })
	if i < 0 {
		return mesh.Member{}, false
	}
	return all[i], true
}

// askMember reads what a member tells, into v, and cuts it to bounds.
func (a *Appliance) askMember(ctx context.Context, q asked, v any) error {
	f := a.mesh.current()
	if f == nil {
		return errNotInMesh
	}
	return ask(ctx, f.client, q, v)
}

// requestAnywhere finds a request, at this node or at the one that it came in by, which has the plan.
func (a *Appliance) requestAnywhere(ctx context.Context, id string) (status.Request, bool) {
	row, here := a.gateway.Request(id)
	if here && row.Plan != nil || len(id) > 64 {
		return row, here
	}
	nodes := []string{row.Entry}
	if !here {
		nodes = nil
		for _, t := range a.views.look(ctx) {
			if slices.ContainsFunc(t.Requests, func(r status.Request) bool { return r.ID == id }) {
				nodes = append(nodes, t.Node.Node)
			}
		}
	}
	for i := 0; i < len(nodes) && row.Plan == nil; i++ {
		m, ok := a.named(nodes[i])
		if !ok {
			continue
		}
		var theirs status.Request
		if err := a.askMember(ctx, asked{m, requestPath, url.Values{"id": {id}}}, &theirs); err != nil || theirs.ID != id {
			continue
		}
		row, here = theirs, true
		if !slices.Contains(nodes, row.Entry) { // who runs it was faster to tell of it
			nodes = append(nodes, row.Entry)
		}
	}
	return row, here
}

// tellMember answers a member's question by what say makes of its query.
func (a *Appliance) tellMember(say func(url.Values) (any, bool)) echo.HandlerFunc {
	return func(c echo.Context) error {
		f := a.mesh.current()
		if f == nil {
			return errNotInMesh
		}
		peer, err := f.verifier.Check(c.Request())
		if err != nil {
			mesh.WriteRefusal(c.Response(), err)
			return nil
		}
		doc, known := say(c.QueryParams())
		if !known {
			return echo.ErrNotFound
		}
		body, err := json.Marshal(doc)
		if err != nil {
			return fmt.Errorf("telling a member: %w", err)
		}
		mesh.WriteSigned(c.Response(), c.Request(), peer, body)
		return nil
	}
}
