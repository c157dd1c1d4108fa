package config

import (
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
)

var (
	deviceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	tailnetTag = regexp.MustCompile(`^tag:[a-zA-Z][a-zA-Z0-9-]{0,62}$`)
)

func (k *checker) mesh() {
	m := k.c.Mesh
	k.oneOf("mesh.network", m.Network, "tailnet", "lan")
	k.between("mesh.bind_port", m.BindPort, 1, maxPort)
	if m.BindPort == k.c.API.Port {
		k.bad("mesh.bind_port", "%d is api.port as well: give gossip a port of its own", m.BindPort)
	}
	k.envWord("mesh.secret_env", m.SecretEnv)
	k.envWord("mesh.secret_prev_env", m.SecretPrevEnv)
	if m.SecretEnv == m.SecretPrevEnv {
		k.bad("mesh.secret_prev_env", "the same variable as secret_env: the previous secret needs one of its own")
	}
	k.oneOf("mesh.secret_enforce", m.SecretEnforce, "none", "outgoing", "full")
	for i, s := range m.Seeds {
		if !isSeed(s) {
			k.bad(item("mesh.seeds", i), "%s is no seed: write host, host:port or [IPv6]:port", quote(s))
		}
	}
	k.tailnet()
}

func (k *checker) envWord(key, name string) {
	if !envWord.MatchString(name) {
		k.bad(key, "want the name of a variable, such as VIIWORK_MESH_SECRET, never the secret itself")
	}
}

// isSeed accepts a name or address, with or without a port.
func isSeed(s string) bool {
	if host, port, err := net.SplitHostPort(s); err == nil {
		return isHost(host) && isPort(port)
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		_, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		return err == nil && strings.HasSuffix(inner, "]")
	}
	return isHost(s)
}

func (k *checker) tailnet() {
	t := k.c.Mesh.Tailnet
	if !deviceName.MatchString(t.Hostname) && !k.broken["node.name"] && nodeName.MatchString(k.c.Node.Name) {
		k.bad("mesh.tailnet.hostname", "%s is no name of a device: use up to 63 of a-z, 0-9 and -, none at the ends", quote(t.Hostname))
	}
	if hasControl(t.AuthKey) || strings.ContainsRune(t.AuthKey, ' ') {
		k.bad("mesh.tailnet.auth_key", "the key holds a space or a control character: copy it again")
	}
	if u, err := url.Parse(t.ControlURL); t.ControlURL != "" && (err != nil || !isWeb(u) || !isAuthority(u)) {
		k.bad("mesh.tailnet.control_url", "want http://host or https://host: write the control server's address, or \"\" for Tailscale's own")
	}
	for i, tag := range t.Tags {
		if !tailnetTag.MatchString(tag) {
			k.bad(item("mesh.tailnet.tags", i), "%s is no tag: write tag:name", quote(tag))
		}
	}
}

func isWeb(u *url.URL) bool { return u.Scheme == "http" || u.Scheme == "https" }
