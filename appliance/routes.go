package appliance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/gateway"
	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
	"viiwork/engine"
)

// mountStatus adds what tells about the node and steers it. None of it needs a slot.
func (a *Appliance) mountStatus(e *echo.Echo) {
	e.GET("/v1/status", func(c echo.Context) error { return c.JSON(http.StatusOK, a.Status()) })
	e.GET("/healthz", func(c echo.Context) error { return c.JSON(http.StatusOK, map[string]string{"status": "ok"}) })
	e.GET("/readyz", a.ready)
	e.POST("/api/drain", a.steered("/", a.postDrain))
	e.GET("/api/logs", a.owner(a.getLogs))
}

var errNotAllowed = &gateway.Error{Status: http.StatusForbidden, Type: "permission_error", Code: "not_allowed",
	Message: "only the commands of this machine may do this: use 'viiwork' there"}

// trusted lets only the node's own socket through.
func (a *Appliance) trusted(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !fromSocket(c.Request()) {
			return errNotAllowed
		}
		return next(c)
	}
}

// ready is 200 once every configured model is ready, else 503 with what is missing.
func (a *Appliance) ready(c echo.Context) error {
	missing := []map[string]string{}
	for _, m := range a.engine.Snapshot() {
		if !slices.ContainsFunc(m.Backends, serving) {
			why := "starting"
			for _, b := range m.Backends {
				why = string(b.State)
				if b.Err != "" {
					why += ": " + b.Err
				}
			}
			missing = append(missing, map[string]string{"model": m.Model.Name, "why": why})
		}
	}
	code, state := http.StatusOK, "ready"
	if len(missing) > 0 {
		code, state = http.StatusServiceUnavailable, "waiting"
		c.Response().Header().Set("Retry-After", "5")
	}
	return c.JSON(code, map[string]any{"status": state, "missing": missing})
}

func serving(b engine.BackendState) bool {
	return b.State == engine.StateReady || b.State == engine.StateBusy
}

func (a *Appliance) postDrain(c echo.Context, body []byte) error {
	var want struct {
		Off bool `json:"off"`
	}
	if len(body) > 0 && json.Unmarshal(body, &want) != nil {
		return &gateway.Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: `the body must be {"off":true} or {"off":false}`}
	}
	if want.Off && a.ending.Load() {
		return &gateway.Error{Status: http.StatusConflict, Type: "invalid_request_error", Code: "ending",
			Message: "this node is on its way down and grants no seats again: start it anew once it has ended"}
	}
	a.Drain(!want.Off)
	return c.JSON(http.StatusOK, map[string]string{"state": a.Status().State})
}

const (
	// maxLogReaders bounds the pages that read logs at one time, and readWithin how long one may leave them lying.
	maxLogReaders = 64
	readWithin    = 10 * time.Second
)

var errTooManyRead = &gateway.Error{Status: http.StatusServiceUnavailable, Code: "too_many_readers",
	Message: "too many pages follow logs of this node: close some, or use 'viiwork logs' there"}

// getLogs streams the engine output of one model, or of all, as text.
func (a *Appliance) getLogs(c echo.Context) error {
	tail, err := strconv.Atoi(c.QueryParam("tail"))
	if err != nil {
		tail = -1
	}
	r := engine.LogRequest{Tail: tail, Follow: c.QueryParam("follow") == "1"}
	if model := c.QueryParam("model"); model == "" {
		for _, m := range a.engine.Snapshot() {
			r.Models = append(r.Models, m.Model.Name)
		}
	} else if r.Models = []string{model}; !a.serves(model) {
		return &gateway.Error{Status: http.StatusNotFound, Type: "invalid_request_error", Code: "model_not_found", Message: fmt.Sprintf("this node has no model %q: 'viiwork models' lists them", model)}
	}
	to := flushed{Response: c.Response()}
	if !fromSocket(c.Request()) { // commands of this machine may be left lying, as by a pager
		defer a.logReaders.Add(-1)
		if a.logReaders.Add(1) > maxLogReaders {
			return errTooManyRead
		}
		to.within = readWithin
	}
	c.Response().Header().Set(echo.HeaderContentType, "text/plain; charset=utf-8")
	c.Response().WriteHeader(http.StatusOK)
	c.Response().Flush() // an engine may say nothing for long
	if err := a.engine.Logs(c.Request().Context(), to, r); err != nil {
		fmt.Fprintf(c.Response(), "viiwork: %v\n", err) // as a last line: the status line is long gone
	}
	return nil
}

// flushed sends on its way at once whatever is written, and gives up who does not take it in time.
type flushed struct {
	*echo.Response
	within time.Duration // 0 = any
}

func (f flushed) Write(p []byte) (int, error) {
	way := http.NewResponseController(f.Response)
	if f.within > 0 {
		_ = way.SetWriteDeadline(time.Now().Add(f.within)) // an in-memory server has none to set
	}
	n, err := f.Response.Write(p)
	if err == nil {
		err = way.Flush()
	}
	return n, err
}

func (a *Appliance) serves(model string) bool {
	return slices.ContainsFunc(a.engine.Snapshot(), func(m engine.ModelState) bool { return m.Model.Name == model })
}

// someoneServes tells whether a node of the mesh has the model.
func (a *Appliance) someoneServes(model string) bool {
	return a.serves(model) || slices.ContainsFunc(a.mesh.table.Snapshot(), func(n mesh.NodeState) bool { return slices.Contains(n.Known, model) })
}

// Status is what /v1/status answers.
func (a *Appliance) Status() status.Node {
	a.mu.Lock()
	cfg := a.cfg // replaced by a reload, never changed
	a.mu.Unlock()
	models := a.engine.Snapshot()
	node := status.Node{
		Node: cfg.Node.Name, Version: a.options.Version, Network: cfg.Mesh.Network, State: stateOf(models),
		Models: []status.Model{}, GPUs: a.gpuStatus(models), Members: a.members(), Warnings: a.allWarnings(),
	}
	for _, m := range models {
		model := modelStatus(m)
		model.Digest = a.digests.of(m.Model.Name)
		node.Models = append(node.Models, model)
	}
	if a.draining.Load() {
		node.State = "draining"
	}
	return node
}
