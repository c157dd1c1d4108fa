package gateway

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
)

// listSessions tells where conversations are at home in the mesh, those last used first.
func (g *Gateway) listSessions(c echo.Context) error {
	n, err := wantedRows(c)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, g.Sessions(n))
}

// Sessions lists up to n conversations, those last used first.
func (g *Gateway) Sessions(n int) []status.Session {
	names := g.names()
	list := []status.Session{}
	for _, c := range g.known.Conversations(min(n, mesh.MaxHomes)) {
		s := status.Session{Session: c.Session, Model: c.Model, Node: g.cfg.Node, Backend: c.Home.Backend, KeySource: c.Source, IdleMS: max(0, c.Idle.Milliseconds()), Replicas: []string{}}
		if c.Home.Node != "" {
			s.Node = names(c.Home.Node)
		}
		for _, id := range c.Replicas {
			name := g.cfg.Node
			if id != "" {
				name = names(id)
			}
			s.Replicas = append(s.Replicas, name)
		}
		slices.Sort(s.Replicas)
		if c.Tokens > 0 {
			s.Tokens = &c.Tokens
		}
		list = append(list, s)
	}
	return list
}
