package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const maxPort = 65535

// item is the key of element i of a list.
func item(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

func (k *checker) api() {
	a := k.c.API
	k.between("api.port", a.Port, 1, maxPort)
	if _, err := netip.ParseAddr(a.Host); a.Host != "" && err != nil {
		k.bad("api.host", "%s is no IP address: write one of this machine, or \"\" for all", quote(a.Host))
	}
	if a.Host != "" && k.c.Mesh.Network == "tailnet" {
		k.c.warn("api.host has no effect with mesh.network tailnet: remove it, or choose network lan")
	}
	k.local()
	for i, h := range a.Hosts {
		if !isHost(h) {
			k.bad(item("api.hosts", i), "%s is no host name: write it without scheme, port or path", quote(h))
		}
	}
	for i, o := range a.CORS.AllowOrigins {
		if o != "*" && !isOrigin(o) {
			k.bad(item("api.cors.allow_origins", i), "%s is no origin: write scheme://host or scheme://host:port, or *", quote(o))
		}
	}
	if a.MaxBody < 1024 {
		k.bad("api.max_body", "%s leaves no room for a request: choose at least 1KiB", formatSize(a.MaxBody))
	}
	if a.MaxInflight < a.MaxBody {
		k.bad("api.max_inflight", "%s is less than one body of max_body (%s): raise it", formatSize(a.MaxInflight), formatSize(a.MaxBody))
	}
}

// local refuses every address that others can reach: api.local carries no tailnet identity and no rules.
func (k *checker) local() {
	local := k.c.API.Local
	if local == "" || !k.c.IsSet("api.local") { // not written: it follows api.port, which is judged on its own
		return
	}
	host, port, err := net.SplitHostPort(local)
	if err != nil || !isPort(port) {
		k.bad("api.local", "%s is not host:port: write 127.0.0.1:8086, or \"\" to switch it off", quote(local))
		return
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.Unmap().IsLoopback()) {
		k.bad("api.local", "%s can be reached from outside: it is for programs on this machine, write 127.0.0.1:%s "+
			"(other machines come in by api.host in network lan, or by the tailnet)", quote(local), port)
	}
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

func isOrigin(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && isAuthority(u) && u.Path == "" && *u == url.URL{Scheme: u.Scheme, Host: u.Host}
}

// isAuthority reports whether the URL names a host and, if any, a real port.
func isAuthority(u *url.URL) bool {
	return isHost(u.Hostname()) && (u.Port() == "" && !strings.HasSuffix(u.Host, ":") || isPort(u.Port()))
}

func (k *checker) routing() {
	r := k.c.Routing
	k.oneOf("routing.policy", r.Policy, "cost", "classic")
	k.between("routing.queue_max", r.QueueMax, 0, 100_000)
	k.atLeast("routing.stale_after", r.StaleAfter, time.Second)
	for i, h := range r.SessionHeaders {
		if !isToken(h) {
			k.bad(item("routing.session_headers", i), "%s is no name of an HTTP header: write one such as X-Chat-Id", quote(h))
		}
	}
}

// isToken is RFC 9110's token.
func isToken(s string) bool {
	return s != "" && len(s) <= 128 && !strings.ContainsFunc(s, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}
