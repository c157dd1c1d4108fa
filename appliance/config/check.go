package config

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
)

// checker holds the configuration against the rules that need nothing but itself.
type checker struct {
	c      *Config
	list   *faultList
	broken map[string]bool // keys whose value could not even be read: their default is not to be judged
}

func (c *Config) check(list *faultList) {
	k := &checker{c, list, map[string]bool{}}
	for _, f := range list.faults {
		k.broken[f.Key] = true
	}
	k.node()
	k.api()
	k.mesh()
	k.models()
	k.aliases()
	k.routing()
	k.rest()
}

func (k *checker) bad(key, format string, args ...any) {
	if !k.broken[key] && !k.list.full() {
		k.list.add(k.c.Fault(key, format, args...))
	}
}

func (k *checker) oneOf(key, value string, choices ...string) {
	if slices.Contains(choices, value) {
		return
	}
	if near := nearest(value, choices); near != "" {
		k.bad(key, "%s is not one of %s: did you mean %s?", quote(value), strings.Join(choices, ", "), near)
		return
	}
	k.bad(key, "%s is not one of %s: choose one", quote(value), strings.Join(choices, ", "))
}

func (k *checker) between(key string, n, low, high int) {
	if n < low || n > high {
		k.bad(key, "%d is out of range: choose %d to %d", n, low, high)
	}
}

func (k *checker) atLeast(key string, d, low time.Duration) {
	if d < low {
		k.bad(key, "%s is too short: choose at least %s", formatDuration(d), formatDuration(low))
	}
}

const maxNodeName = 32

var (
	nodeName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)
	hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?$`)
	envWord  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func isHost(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil || len(s) <= 253 && hostName.MatchString(s)
}

func hasControl(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }

func (k *checker) node() {
	n := k.c.Node
	if !nodeName.MatchString(n.Name) {
		k.bad("node.name", "%s: use 1 to %d of a-z, 0-9 and -", quote(n.Name), maxNodeName)
	}
	k.path("node.state_dir", n.StateDir)
	k.path("models_dir", k.c.ModelsDir)
}

// path refuses what no shell expanded: the file system would take it literally.
func (k *checker) path(key, path string) {
	switch {
	case hasControl(path):
		k.bad(key, "the path holds control characters: remove them")
	case strings.Contains(path+"/", "/~/"), strings.Contains(path, "/$"):
		k.bad(key, "%s: ~ and $ are not expanded here, write the whole path", quote(path))
	case len(path) > 4000:
		k.bad(key, "the path is longer than any system allows: shorten it")
	}
}

func (k *checker) rest() {
	c := k.c
	k.atLeast("health.interval", c.Health.Interval, 100*time.Millisecond)
	k.atLeast("health.stall", c.Health.Stall, time.Second)
	k.between("health.max_respawns", c.Health.MaxRespawns, 0, 1_000_000)
	k.oneOf("kv_share.mode", c.KVShare.Mode, "off", "pull", "replicate")
	k.direct()
	if r := c.KVShare.Rate; r > 0 && r < mib {
		k.bad("kv_share.rate", "%s a second is so little that members would take this node for gone: choose at least 1MiB, or 0 for any rate", formatSize(r))
	}
	k.between("gpu.power_limit_watts", c.GPU.PowerLimitWatts, 0, 5000)
	if hasControl(c.Update.Source) {
		k.bad("update.source", "the source holds control characters: remove them")
	}
	k.window()
	if u, err := url.Parse(c.Telemetry.OTLP); c.Telemetry.OTLP != "" && (err != nil || !isWeb(u) || !isAuthority(u) || u.User != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") != "") {
		k.bad("telemetry.otlp", "this is no collector's address: write it as http://collector:4318, without a path, user or password")
	}
	k.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	k.oneOf("log.format", c.Log.Format, "text", "json")
}

func (k *checker) direct() {
	for i, a := range k.c.KVShare.Direct {
		key := item("kv_share.direct", i)
		if a == "auto" {
			if len(k.c.KVShare.Direct) > 1 {
				k.bad(key, "auto stands for all private addresses: leave it alone in the list, or name the addresses")
			}
		} else if ip, err := netip.ParseAddr(a); err != nil || ip.IsUnspecified() {
			k.bad(key, "%s is no address of this machine: write an IP address, or auto", quote(a))
		}
	}
}

func (k *checker) window() {
	if _, err := ParseWindow(k.c.Update.Window); err != nil {
		k.bad("update.window", "%s", err)
	}
}
