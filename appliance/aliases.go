package appliance

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/gateway"
	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
)

// maxAliasBody is more than the longest two names take.
const maxAliasBody = 8 << 10

// mountAliases adds what lists and changes the mesh's aliases. A name in a path may hold slashes, plain or as %2F.
func (a *Appliance) mountAliases(e *echo.Echo) {
	e.GET("/v1/aliases", a.amongFellows(func(f *fellows) http.Handler { return f.herald }))
	e.GET("/api/aliases", func(c echo.Context) error { return c.JSON(http.StatusOK, a.aliases()) })
	e.POST("/api/aliases", a.fellow(a.postAlias))
	e.DELETE("/api/aliases/*", a.fellow(a.deleteAlias))
	e.POST("/api/aliases/*", a.fellow(a.revertAlias))
}

// fellow lets the node's own socket and pages through, and members of a secured mesh: in an open one a signature proves nothing.
// The handler gets a body that has been read whole and is the one that was signed.
func (a *Appliance) fellow(next func(c echo.Context, body []byte) error) echo.HandlerFunc {
	steered := a.steered("/aliases", next)
	return func(c echo.Context) error {
		r := c.Request()
		if fromSocket(r) || !mesh.FromMember(r) {
			return steered(c)
		}
		hurry(c)
		f := a.mesh.current()
		if f == nil || !a.mesh.keys.Load().Secured() {
			return errNotAllowed
		}
		peer, err := f.verifier.Check(r)
		if err != nil {
			mesh.WriteRefusal(c.Response(), err)
			return nil
		}
		body, err := smallBody(peer.VerifyBody(r.Body))
		if err != nil {
			return err
		}
		return next(c, body)
	}
}

// smallBody reads the body of what steers a node.
func smallBody(from io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(from, maxAliasBody+1))
	switch {
	case errors.Is(err, mesh.ErrBodyDigest):
		return nil, &gateway.Error{Status: http.StatusForbidden, Code: "body_digest", Message: err.Error()}
	case err != nil || len(body) > maxAliasBody:
		return nil, &gateway.Error{Status: http.StatusBadRequest, Code: "invalid_json", Message: "the body must be a JSON object, and a short one"}
	}
	return body, nil
}

func (a *Appliance) postAlias(c echo.Context, body []byte) error {
	var want struct{ Name, Target string }
	if json.Unmarshal(body, &want) != nil {
		return &gateway.Error{Status: http.StatusBadRequest, Code: "invalid_json", Message: `the body must be {"name":"…","target":"…"}`}
	}
	if err := mesh.CheckAlias(want.Name, want.Target); err != nil {
		return aliasError(err)
	}
	if err := a.mayLead(want.Name, want.Target); err != nil {
		return err
	}
	if !a.gateway.Serves(want.Target) {
		return a.gateway.UnknownModel(want.Target)
	}
	return a.writeAlias(c, want.Name, want.Target)
}

// mayLead keeps what a name leads to one step away, and models reachable by their names.
func (a *Appliance) mayLead(name, target string) error {
	further, isAlias := a.mesh.aliases.Targets()[target]
	switch {
	case a.gateway.Serves(name):
		return &gateway.Error{Status: http.StatusConflict, Code: "alias_is_model", Param: "name",
			Message: "there is a model \"" + name + "\", and a model comes before an alias: choose another name"}
	case isAlias && !a.gateway.Serves(target):
		return &gateway.Error{Status: http.StatusConflict, Code: "alias_of_alias", Param: "target",
			Message: "\"" + target + "\" is itself an alias of \"" + further + "\": point at \"" + further + "\""}
	}
	return nil
}

func (a *Appliance) writeAlias(c echo.Context, name, target string) error {
	e, err := a.mesh.aliases.Set(name, target)
	if err != nil {
		return aliasError(err)
	}
	return c.JSON(http.StatusOK, a.alias(e))
}

func (a *Appliance) deleteAlias(c echo.Context, _ []byte) error {
	name := aliasIn(c)
	e, err := a.mesh.aliases.Remove(name)
	if errors.Is(err, mesh.ErrNoAlias) {
		return a.gateway.UnknownAlias(name)
	}
	if err != nil {
		return aliasError(err)
	}
	return c.JSON(http.StatusOK, a.alias(e))
}

// revertAlias takes the last change of an alias back. The model may have gone meanwhile: then the owner sees it dangling.
func (a *Appliance) revertAlias(c echo.Context, _ []byte) error {
	name, ok := strings.CutSuffix(aliasIn(c), "/revert")
	if !ok {
		return echo.ErrNotFound
	}
	target, err := a.mesh.aliases.Before(name)
	switch {
	case errors.Is(err, mesh.ErrNoAlias):
		return a.gateway.UnknownAlias(name)
	case err != nil:
		return aliasError(err)
	}
	if err := a.mayLead(name, target); err != nil {
		return err
	}
	return a.writeAlias(c, name, target)
}

func aliasIn(c echo.Context) string {
	return strings.TrimPrefix(c.Request().URL.Path, "/api/aliases/")
}

// aliasError is what a client is told of a change that was not made.
func aliasError(err error) error {
	e := &gateway.Error{Message: err.Error()}
	switch {
	case errors.Is(err, mesh.ErrAliasName), errors.Is(err, mesh.ErrAliasItself):
		e.Status, e.Code = http.StatusBadRequest, "invalid_alias"
	case errors.Is(err, mesh.ErrAliasesFull):
		e.Status, e.Code = http.StatusConflict, "aliases_full"
	case errors.Is(err, mesh.ErrNoPrevious):
		e.Status, e.Code = http.StatusConflict, "nothing_before"
	case errors.Is(err, mesh.ErrNoPlace):
		return errNotInMesh
	default:
		return err // the log says what
	}
	return e
}

// aliases lists the mesh's aliases by name.
func (a *Appliance) aliases() []status.Alias {
	list := []status.Alias{}
	for _, e := range a.mesh.aliases.List() {
		list = append(list, a.alias(e))
	}
	return list
}

func (a *Appliance) alias(e mesh.Alias) status.Alias {
	out := status.Alias{
		Name: e.Name, Target: e.Target, Prev: e.Prev, Version: e.Version, Node: a.nodeName(e.Node),
		Time: time.UnixMilli(e.At).UTC(), State: "ok",
	}
	switch {
	case e.Deleted:
		out.State = "removed"
	case a.gateway.Serves(e.Name):
		out.State = "shadowed"
	case !a.gateway.Serves(e.Target):
		out.State = "dangling"
	}
	return out
}

// nodeName is the name of the node with that id, the id where gossip knows none.
func (a *Appliance) nodeName(id string) string {
	f := a.mesh.current()
	if f == nil {
		return id
	}
	if id == f.id {
		return a.current().Node.Name
	}
	for _, s := range f.cluster.Members() {
		if s.ID == id {
			return s.Name
		}
	}
	return id
}
