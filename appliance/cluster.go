package appliance

import (
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/gateway"
	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
	"viiwork/serf"
)

// mountCluster adds what tells about the mesh.
func (a *Appliance) mountCluster(e *echo.Echo) {
	e.GET("/v1/cluster", func(c echo.Context) error { return c.JSON(http.StatusOK, a.Cluster()) })
	e.GET("/v1/capacity", a.amongFellows(func(f *fellows) http.Handler { return f.publisher }))
	e.POST("/v1/lock", a.amongFellows(func(f *fellows) http.Handler { return f.lock }))
	desk := a.amongFellows(func(f *fellows) http.Handler { return f.desk })
	e.Any("/v1/lease", desk)
	e.Any("/v1/lease/:id", desk)
}

// amongFellows answers by a part that is there once the node has its place in the mesh.
func (a *Appliance) amongFellows(part func(*fellows) http.Handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		f := a.mesh.current()
		if f == nil {
			return errNotInMesh
		}
		hurry(c)
		part(f).ServeHTTP(c.Response(), c.Request())
		return nil
	}
}

var errNotInMesh = &gateway.Error{Status: http.StatusServiceUnavailable, Code: "not_in_mesh", Message: "this node has no place in the mesh yet: try again once it has joined its network"}

// Cluster is what /v1/cluster answers: the mesh as this node sees it.
func (a *Appliance) Cluster() status.Cluster {
	all := status.Cluster{Members: a.members(), Models: []status.ClusterModel{}, Aliases: a.aliases(), Rollout: a.rollout(), Warnings: a.allWarnings()}
	hosts := map[string][]string{}
	self := a.current().Node.Name
	for _, m := range a.engine.Snapshot() {
		hosts[m.Model.Name] = append(hosts[m.Model.Name], self)
	}
	for _, n := range a.mesh.table.Snapshot() {
		if n.Report == nil {
			continue
		}
		for _, m := range n.Report.Models {
			hosts[m.Name] = append(hosts[m.Name], n.Member.Name)
		}
	}
	for name, nodes := range hosts {
		slices.Sort(nodes)
		all.Models = append(all.Models, status.ClusterModel{Name: name, Hosts: nodes})
	}
	slices.SortFunc(all.Models, func(x, y status.ClusterModel) int { return strings.Compare(x.Name, y.Name) })
	return all
}

// members lists this node first and then everyone gossip knows, by name.
func (a *Appliance) members() []status.Member {
	cfg := a.current()
	self := status.Member{Name: cfg.Node.Name, State: "alive", Version: a.options.Version, Addr: firstAddress(cfg)}
	if a.draining.Load() {
		self.State = "draining"
	}
	f := a.mesh.current()
	if f == nil {
		return []status.Member{self}
	}
	heard := map[string]mesh.NodeState{}
	for _, n := range a.mesh.table.Snapshot() {
		heard[n.Member.ID] = n
	}
	var others []status.Member
	for _, s := range f.cluster.Members() {
		if s.ID == f.id {
			self.Addr = s.API.String()
			continue
		}
		others = append(others, member(s, heard[s.ID]))
	}
	slices.SortFunc(others, func(x, y status.Member) int { return strings.Compare(x.Name, y.Name) })
	return append([]status.Member{self}, others...)
}

// member is another node as gossip and its own reports have it. One that gossip holds for alive and that has not spoken
// lately is "silent": nothing is routed to it.
func member(s serf.Member, n mesh.NodeState) status.Member {
	out := status.Member{Name: s.Name, State: string(s.State), Version: s.Version, Addr: s.API.String(), AgeMS: -1}
	if n.Member.ID != "" && n.Age >= 0 {
		out.AgeMS = n.Age.Milliseconds()
	}
	switch {
	case s.State != serf.StateAlive:
	case n.Quarantined || n.Report == nil:
		out.State = "silent"
	case n.Report.Draining:
		out.State = "draining"
	}
	return out
}

// allWarnings joins what the parts have to say.
func (a *Appliance) allWarnings() []status.Warning {
	a.mu.Lock()
	all := append(slices.Clone(a.warnings), a.turns.warning()...)
	a.mu.Unlock()
	all = append(all, changeWarnings(a.engine.Snapshot())...)
	all = a.cardWarnings(all)
	all = append(all, a.digests.replaced()...)
	net := a.mesh.node.Status()
	if net.LoginURL != "" {
		all = append(all, status.Warning{ID: "login", Text: "this device is not logged in to its tailnet yet: it serves this machine only", Fix: "open " + net.LoginURL})
	}
	for _, w := range net.Warnings {
		all = append(all, status.Warning{ID: w.ID, Text: w.Text, Fix: w.Fix})
	}
	if a.options.News != nil {
		all = append(all, a.options.News()...)
	}
	all = append(all, a.mesh.aliases.Warnings()...)
	if f := a.mesh.current(); f != nil {
		for _, w := range f.cluster.Warnings() {
			all = append(all, status.Warning{ID: w.ID, Text: w.Text, Fix: w.Fix})
		}
		all = append(all, f.watcher.Warnings()...)
		all = append(all, f.rotation.Warnings()...)
		all = append(all, a.rolloutWarnings()...)
		all = append(all, a.gateway.Warnings()...)
	}
	if all == nil {
		all = []status.Warning{}
	}
	return all
}
