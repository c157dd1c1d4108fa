package appliance

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/gateway"
	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
	"viiwork/engine"
)

// mountRestart lets an update end this run, and see how it is getting on.
func (a *Appliance) mountRestart(e *echo.Echo) {
	e.GET("/api/update/restart", a.trusted(func(c echo.Context) error { return c.JSON(http.StatusOK, a.restart()) }))
	e.POST("/api/update/restart", a.trusted(a.postRestart))
}

// mostDrain bounds what may be asked for: a run that is to end does.
const mostDrain = time.Hour

var errNotSupervised = &gateway.Error{Status: http.StatusConflict, Type: "invalid_request_error", Code: "not_supervised",
	Message: "nothing starts this node again when it ends: end it and start it anew, as you started it"}

// postRestart wishes this run to end, so that what started it starts the next. It answers at once.
func (a *Appliance) postRestart(c echo.Context) error {
	body, err := smallBody(c.Request().Body)
	if err != nil {
		return err
	}
	var want struct {
		Drain float64 `json:"drain_s"` // seconds for what runs to finish; 0 = node.drain
	}
	if len(body) > 0 && json.Unmarshal(body, &want) != nil || !(want.Drain >= 0 && want.Drain <= mostDrain.Seconds()) {
		return &gateway.Error{Status: http.StatusBadRequest, Type: "invalid_request_error",
			Message: fmt.Sprintf(`the body must be {"drain_s":30} with 0 to %.0f seconds`, mostDrain.Seconds())}
	}
	if !a.options.Restarted {
		return errNotSupervised
	}
	limit := cmp.Or(time.Duration(want.Drain*float64(time.Second)), a.current().Node.Drain)
	a.passage.leave(limit)
	select {
	case a.passage.wish <- limit:
	default: // it is on its way already
	}
	return c.JSON(http.StatusAccepted, a.restart())
}

// restart is how this run stands on its way to the next.
func (a *Appliance) restart() status.Restart {
	r := a.passage.now()
	r.PID, r.Version, r.Requests = os.Getpid(), a.options.Version, a.gateway.Inflight()
	return r
}

// How long a run that was given its listeners lets connections wait there for what the run before could answer: for its
// engines, which are adopted in a second or two, and for members to be heard again. Over a tailnet the first word to a
// member may be lost, since that still answers where the run before was, and is repeated after five seconds.
const (
	adoptWithin = 20 * time.Second
	hearWithin  = 8 * time.Second
)

// takeOver returns once this run answers what the one before answered, as far as that will be soon. It also knows again
// where conversations are by then: what was kept waiting would begin anew here, although others have it.
func (a *Appliance) takeOver(ctx context.Context) {
	wait, cancel := context.WithTimeout(ctx, adoptWithin)
	defer cancel()
	a.within(wait, func() bool { return !slices.ContainsFunc(a.engine.Snapshot(), adopting) })
	wait, cancel = context.WithTimeout(ctx, hearWithin)
	defer cancel()
	models, members := a.passage.answered()
	a.within(wait, func() bool {
		return !slices.ContainsFunc(models, func(model string) bool { return !a.someoneServes(model) }) &&
			!slices.ContainsFunc(members, func(id string) bool { return !a.mesh.known.Knows(id) })
	})
}

// heard lists the members whose word this node has at the moment.
func (a *Appliance) heard() (ids []string) {
	for _, n := range a.mesh.table.Snapshot() {
		if n.Report != nil && !n.Gone {
			ids = append(ids, n.Member.ID)
		}
	}
	return ids
}

// adopting tells that an engine of the run before may yet be found to serve the model. One that loads takes as long as
// it takes: clients are told.
func adopting(m engine.ModelState) bool {
	return slices.ContainsFunc(m.Backends, func(b engine.BackendState) bool {
		switch b.State {
		case engine.StateReady, engine.StateBusy, engine.StateDraining, engine.StateFailed, engine.StateRestarting:
			return false
		}
		return b.Process == "" || b.Adopted
	})
}

// answers lists the models that are answered by this node or by another that it knows.
func (a *Appliance) answers() (models []string) {
	for _, m := range a.engine.Snapshot() {
		if slices.ContainsFunc(m.Backends, func(b engine.BackendState) bool { return serving(b) || b.State == engine.StateDraining }) {
			models = append(models, m.Model.Name)
		}
	}
	for _, n := range a.mesh.table.Snapshot() {
		models = append(models, n.Known...)
	}
	slices.Sort(models)
	return slices.Compact(models)
}

// relieved tells that other nodes have all that this one has, so that whoever waits here may be sent there.
func (a *Appliance) relieved() bool {
	others := a.mesh.table.Snapshot()
	for _, m := range a.engine.Snapshot() {
		elsewhere := false
		for _, n := range others {
			told, has := n.Model(m.Model.Name)
			elsewhere = elsewhere || has && !n.Report.Draining && slices.ContainsFunc(told.Backends, func(b mesh.Backend) bool { return b.Ready })
		}
		if !elsewhere {
			return false
		}
	}
	return true
}
