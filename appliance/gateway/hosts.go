package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// knownHost checks the Host header. A web page can make a browser send requests to this node under the page's own
// name (DNS rebinding); a name that could be such a page's is refused unless the owner listed it.
func (g *Gateway) knownHost(r *http.Request) bool {
	name := hostName(r.Host)
	if name == "" {
		return false
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return !strings.Contains(name, ".") || strings.HasSuffix(name, ".local") || name == "host.docker.internal" || g.hosts[name] || name == g.hostName()
}

// hostName is this device's name on the mesh's network, "" when it has none.
func (g *Gateway) hostName() string {
	if m := g.joined.Load(); m != nil && m.HostName != nil {
		return strings.ToLower(m.HostName())
	}
	return ""
}

// hostName takes the port, the brackets and a final dot off a host and lowers its case.
func hostName(hostport string) string {
	name := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	return strings.ToLower(strings.TrimSuffix(name, "."))
}
