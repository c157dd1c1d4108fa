package gateway

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// CORSConfig says which web pages may use this node from a browser. The zero value allows none but its own.
type CORSConfig struct {
	AllowOrigins    []string // "https://app.example", or "*" for every page
	AllowTailnetIPs bool     // pages served from a tailnet address
}

// exposed are the response headers a page may read.
const exposed = "X-Viiwork-Request-Id, X-Viiwork-Node, X-Viiwork-Origin, X-Viiwork-Backend, X-Viiwork-Model, X-Viiwork-Alias, X-Viiwork-Key, X-Viiwork-Route, X-Viiwork-Queue-Ms, Retry-After"

// admit applies the rules for requests that a web page makes. It reports whether the request was a preflight and is
// answered now, or an error when the page may not do what it asks. Programs send no Origin and pass.
func (g *Gateway) admit(w http.ResponseWriter, r *http.Request) (answered bool, err error) {
	origin := r.Header.Get("Origin")
	if g.cors() {
		w.Header().Add("Vary", "Origin")
	}
	if origin == "" || sameOrigin(origin, r) {
		return false, nil
	}
	asked := r.Header.Get("Access-Control-Request-Method")
	preflight := r.Method == http.MethodOptions && asked != ""
	if !g.allowed(origin) {
		if preflight || r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions {
			return false, &Error{Status: http.StatusForbidden, Code: "origin_not_allowed", Message: "this web page's origin may not use this node; the owner can add it to api.cors.allow_origins"}
		}
		return false, nil
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	if !preflight {
		h.Set("Access-Control-Expose-Headers", exposed)
		return false, nil
	}
	h.Add("Vary", "Access-Control-Request-Headers")
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE, OPTIONS")
	if names := r.Header.Get("Access-Control-Request-Headers"); names != "" {
		h.Set("Access-Control-Allow-Headers", names)
	}
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true, nil
}

func (g *Gateway) cors() bool { return len(g.cfg.CORS.AllowOrigins) > 0 || g.cfg.CORS.AllowTailnetIPs }

func (g *Gateway) allowed(origin string) bool {
	c := g.cfg.CORS
	if slices.Contains(c.AllowOrigins, "*") {
		return true
	}
	if slices.ContainsFunc(c.AllowOrigins, func(o string) bool { return strings.EqualFold(strings.TrimSuffix(o, "/"), origin) }) {
		return true
	}
	return c.AllowTailnetIPs && tailnetOrigin(origin)
}

func sameOrigin(origin string, r *http.Request) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, r.Host)
}

// The address ranges of every tailnet.
var (
	tailnet4 = netip.MustParsePrefix("100.64.0.0/10")
	tailnet6 = netip.MustParsePrefix("fd7a:115c:a1e0::/48")
)

func tailnetOrigin(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(u.Hostname())
	return err == nil && (tailnet4.Contains(a) || tailnet6.Contains(a))
}
