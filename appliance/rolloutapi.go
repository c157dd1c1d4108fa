package appliance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/gateway"
	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
	"viiwork/update/rollout"
)

// mountUpdates adds what members say to each other of their programs, and the command that leads a roll-out.
func (a *Appliance) mountUpdates(e *echo.Echo) {
	e.GET(updatePath, a.tellMember(func(url.Values) (any, bool) { return a.rollouts.program(), true }))
	e.POST(updatePath, a.amongFellows(func(f *fellows) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.rollouts.ordered(f, w, r) })
	}))
	e.POST(stopPath, a.amongFellows(func(f *fellows) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.rollouts.askedToStop(f, w, r) })
	}))
	e.GET("/api/update/mesh", a.trusted(a.getRollout))
	e.POST("/api/update/mesh", a.trusted(a.postRollout))
}

var errNotMetYet = &gateway.Error{Status: http.StatusServiceUnavailable, Code: "not_in_mesh", RetryAfter: time.Second,
	Message: "this node is not in its mesh yet; try again shortly"}

var errNoInstaller = conflict("not_installed_here",
	"this program does not replace itself, so it does not lead others either: lead from a node that 'viiwork update' can update")

func conflict(code, message string) *gateway.Error {
	return &gateway.Error{Status: http.StatusConflict, Type: "invalid_request_error", Code: code, Message: message}
}

// getRollout answers GET /api/update/mesh.
func (a *Appliance) getRollout(c echo.Context) error {
	if a.mesh.current() == nil { // it leads none that it knows of, and may yet turn out to: who follows one asks again
		return errNotMetYet
	}
	out := a.rollout()
	if out == nil {
		out = &status.Rollout{Members: []status.RolloutMember{}}
	}
	a.rollouts.mu.Lock()
	fault, wanted, ending := a.rollouts.fault, a.rollouts.begins || a.rollouts.wish != nil && !a.rollouts.wish.end, ""
	if h := a.rollouts.halt; h != nil {
		ending = h.why(fault)
	}
	a.rollouts.mu.Unlock()
	switch running := out.Stage == string(rollout.Running) && out.Lead == a.current().Node.Name; {
	case ending != "" && out.Stage == string(rollout.Running) && (out.StoppedBy == "" || !out.Led):
		out.Why = ending
	case fault != "" && running:
		out.Why = fault // and it tries again
	case fault != "" && !out.Led:
		return conflict("not_led", fault)
	}
	if wanted { // what went before is no news of it
		out = &status.Rollout{Stage: string(rollout.Running), Why: "it is about to begin", Lead: a.current().Node.Name, Members: []status.RolloutMember{}}
	}
	return c.JSON(http.StatusOK, out)
}

// postRollout plans a roll-out, has this node lead it, or ends the one that is under way.
func (a *Appliance) postRollout(c echo.Context) error {
	body, err := smallBody(c.Request().Body)
	if err != nil {
		return err
	}
	var want status.RolloutRequest
	if len(body) > 0 && json.Unmarshal(body, &want) != nil {
		return &gateway.Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: `the body must be {"version":"v1.2.3","plan":false,"stop":false}`}
	}
	f := a.mesh.current()
	switch {
	case !a.mesh.keys.Load().Secured():
		return conflict("not_secured", mesh.ErrLockOpen.Error())
	case f == nil:
		return errNotInMesh
	case want.Stop:
		a.rollouts.stop("", a.current().Node.Name)
		return a.getRollout(c)
	case a.rollouts.install == nil:
		return errNoInstaller
	}
	ctx := c.Request().Context()
	version, err := a.rollouts.wanted(ctx, want.Version)
	if err != nil {
		return conflict("no_version", err.Error())
	}
	roll, held := a.rollouts.known()
	if roll.Stage == rollout.Running && roll.Version != version {
		if want.Version != "" && !want.Plan {
			return conflict("another_version",
				fmt.Sprintf("%s is being rolled out, and is not at its end: without --to, 'viiwork update --mesh' goes on with it, and --stop ends it", roll.Version))
		}
		version = cmp.Or(want.Version, roll.Version) // what is not at its end comes first
	}
	if held && roll.LeadName != a.current().Node.Name && !want.Plan {
		return conflict("led_elsewhere",
			fmt.Sprintf("%s leads a roll-out of %s at this moment: follow it there with 'viiwork update --mesh'", roll.LeadName, roll.Version))
	}
	if want.Plan {
		return a.planRollout(c, f, version)
	}
	if roll.Stage == rollout.Running && !roll.Halted.IsZero() {
		return conflict("being_stopped",
			fmt.Sprintf("the roll-out of %s has been stopped, and its last turn is not at its end: try again then", roll.Version))
	}
	if !held {
		a.rollouts.want(wish{version: version, named: want.Version != ""})
	}
	return c.JSON(http.StatusAccepted, status.Rollout{Version: version, Stage: string(rollout.Running), Lead: a.current().Node.Name, Members: []status.RolloutMember{}})
}

func (a *Appliance) planRollout(c echo.Context, f *fellows, version string) error {
	seen := a.rollouts.look(c.Request().Context(), f)
	roll, err := rollout.Begin(a.rollouts.order(f, wish{version: version}), seen)
	if err != nil {
		return err
	}
	roll, turns := rollout.Plan(roll, time.Now(), seen)
	out := drawRoll(roll)
	out.Stage, out.Order = "planned", turns
	return c.JSON(http.StatusOK, out)
}
