package appliance

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/gateway"
	"viiwork/appliance/history"
	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
	"viiwork/engine"
	"viiwork/tsnode"
	"viiwork/ui/web"
)

// makePages makes what people see of the node. It starts nothing.
func (a *Appliance) makePages() {
	a.token = newToken()
	a.views = newViews(a.others, a.viewOf, a.log)
	a.site = web.New(web.Config{
		Node: a.cfg.Node.Name, Version: a.options.Version, Token: a.token, Log: a.log,
		Board: a.Board, Request: a.requestAnywhere, Sessions: func(n int) []status.Session { return a.gateway.Sessions(n) }, Logs: a.logTail,
	})
}

// openHistory wants the lock of the state directory held. A node without a history serves all the same.
func (a *Appliance) openHistory() {
	var made int64
	var at time.Time
	past, err := history.Open(history.Config{
		Dir: filepath.Join(a.current().Node.StateDir, "history"), Log: a.log, Watts: a.watts,
		Sample: func() map[string]float64 {
			figures := a.figures()
			if now, n := time.Now(), a.gateway.Produced(); at.IsZero() {
				made, at = n, now
			} else {
				figures["output_tps"] = float64(n-made) / now.Sub(at).Seconds()
				made, at = n, now
			}
			return figures
		},
	})
	if err != nil {
		a.log.Warn("this run has no history; make node.state_dir writable to this user", "error", err)
		return
	}
	a.past = past
}

// requestEnded tells the collector of traces of a request, and the history of one that came in by this node.
func (a *Appliance) requestEnded(r status.Request, c gateway.Course) {
	a.traces.ended(r, c)
	if r.Entry == a.current().Node.Name {
		a.past.Ended(r)
	}
}

// runPages keeps up to date what people see, until ctx ends; end is told how each part of it ended.
func (a *Appliance) runPages(ctx context.Context, running *sync.WaitGroup, end func(error)) {
	running.Go(func() { end(wrap("views", a.views.Run(ctx))) })
	running.Go(func() { end(wrap("pages", a.site.Run(ctx))) })
	if a.past != nil {
		running.Go(func() { end(wrap("history", a.past.Run(ctx))) })
	}
}

// figures are those of this moment that are kept over time.
func (a *Appliance) figures() map[string]float64 {
	all := map[string]float64{}
	for _, m := range a.report().Models {
		slots, free := m.Slots()
		all["slots"] += float64(slots)
		all["slots_busy"] += float64(slots - free)
		all["waiting"] += float64(m.Waiting)
		all["busy of "+m.Name] = float64(slots - free)
		all["waiting for "+m.Name] = float64(m.Waiting)
	}
	for _, c := range a.live.Cards() {
		name := string(c.Accel) + " " + itoa(c.Index)
		if c.Reading.Busy != nil {
			all[name+" busy"] = 100 * *c.Reading.Busy
		}
		if c.Reading.Used != nil {
			all[name+" used"] = float64(*c.Reading.Used) / (1 << 30)
		}
		if c.Reading.Celsius != nil {
			all[name+" celsius"] = *c.Reading.Celsius
		}
		if c.Reading.Watts != nil {
			all[name+" watts"] = *c.Reading.Watts
		}
	}
	if w, told := a.watts(); told {
		all["watts"] = w
	}
	return all
}

// watts is what the cards draw that tell.
func (a *Appliance) watts() (all float64, told bool) {
	for _, c := range a.live.Cards() {
		if c.Reading.Watts != nil {
			all, told = all+*c.Reading.Watts, true
		}
	}
	return all, told
}

// others are the living members without this node; none before it has its place in the mesh.
func (a *Appliance) others() []mesh.Member {
	if f := a.mesh.current(); f != nil {
		return others(f)
	}
	return nil
}

func (a *Appliance) viewOf(ctx context.Context, m mesh.Member, again bool) (v status.View, err error) {
	q := url.Values{}
	if again {
		q.Set("again", "1")
	}
	err = a.askMember(ctx, asked{m, viewPath, q}, &v)
	return v, err
}

// logTail writes what the engines of a model of this node wrote last.
func (a *Appliance) logTail(ctx context.Context, to io.Writer, model string, tail int) error {
	if !a.serves(model) {
		return errors.New("this machine has no model of that name")
	}
	return a.engine.Logs(ctx, to, engine.LogRequest{Models: []string{model}, Tail: tail})
}

// mountPages adds the pages and what their scripts ask.
func (a *Appliance) mountPages(e *echo.Echo) {
	for _, route := range web.Routes {
		method, path, _ := strings.Cut(route, " ")
		path = strings.NewReplacer("{", ":", "}", "").Replace(path)
		e.Add(method, path, echo.WrapHandler(a.site))
	}
	e.GET("/api/history", a.getHistory)
}

// callerKey is where a connection's context has the device that it comes from.
type callerKey struct{}

// caller names who asks, for people: a device of the tailnet and its user, an address of the LAN, "" for a program of this machine.
func caller(r *http.Request) string {
	if name, ok := r.Context().Value(callerKey{}).(string); ok {
		return name
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	if addr, err := netip.ParseAddr(host); err != nil || addr.IsLoopback() {
		return ""
	}
	return host
}

// deviceOf names a device of the tailnet, and whose it is.
func deviceOf(who tsnode.Caller) string {
	if who.Login == "" || len(who.Tags) > 0 {
		return who.Node
	}
	return who.Node + " (" + who.Login + ")"
}

var errNoNode = &gateway.Error{Status: http.StatusNotFound, Code: "host_not_found", Param: "node", Message: "no living node has this name: GET /v1/cluster lists them"}
