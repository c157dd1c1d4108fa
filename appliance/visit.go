package appliance

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/gateway"
	"viiwork/serf"
)

// mountVisit lets the commands of this machine ask another member what any client could ask it: on a tailnet only the
// node's own device reaches it. Only paths for clients are open, and only members' addresses are dialled.
func (a *Appliance) mountVisit(e *echo.Echo) {
	e.Any("/api/members/:name/v1/*", a.trusted(a.visit))
}

func (a *Appliance) visit(c echo.Context) error {
	f := a.mesh.current()
	if f == nil {
		return errNotInMesh
	}
	name := c.Param("name")
	members := f.cluster.Members()
	at := slices.IndexFunc(members, func(m serf.Member) bool { return m.Name == name && m.State == serf.StateAlive && m.ID != f.id })
	if at < 0 {
		return &gateway.Error{Status: http.StatusNotFound, Type: "invalid_request_error", Code: "host_not_found",
			Message: fmt.Sprintf("no other living member is called %q: 'viiwork status --mesh' lists them", name)}
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		return a.mesh.node.DialContext(ctx, network, addr)
	}}
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			path := strings.TrimPrefix(r.In.URL.Path, "/api/members/"+name)
			r.Out.URL = &url.URL{Scheme: "http", Host: members[at].API.String(), Path: path, RawQuery: r.In.URL.RawQuery}
			r.Out.Host = r.Out.URL.Host
			for header := range r.Out.Header {
				if strings.HasPrefix(header, "X-Viiwork-") { // what members tell each other is not for clients
					r.Out.Header.Del(header)
				}
			}
		},
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			http.Error(w, "the member does not answer: "+err.Error(), http.StatusBadGateway)
		},
	}
	proxy.ServeHTTP(c.Response(), c.Request())
	return nil
}
