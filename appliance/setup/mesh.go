package setup

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"viiwork/appliance/config"
	"viiwork/appliance/status"
)

// Around is what a running node knows of itself and its mesh.
type Around struct {
	Node    status.Node
	Cluster status.Cluster
	KV      []status.KVModel // nil = it does not move caches
}

// meshCheck gathers those warnings of a node that are about one thing.
type meshCheck struct {
	id    string
	state State
	about []string // ids of warnings
	cause string
	fine  string
}

var meshChecks = []meshCheck{
	{"secret", Fail, []string{"gossip-secret", "mesh_secret"}, "the two machines hold different secrets, or one of them was away while the secret was replaced", "nobody around has another mesh secret"},
	{"mode", Fail, []string{"gossip-no-secret", "gossip-open", "mesh_mode"}, "one machine has a secret and the other runs an open mesh", "nobody around runs the mesh in another mode"},
	{"name", Fail, []string{"name-clash", "id-clash", "tailnet-name"}, "names and ids are unique in a mesh, names of devices in a tailnet", "no other machine has this node's name"},
	{"version", Fail, []string{"mesh_version"}, "a node speaks its own and the previous version between nodes", "all members understand each other"},
	{"clock_skew", Warn, []string{"mesh_clock"}, "messages between nodes carry the time", "the members' clocks agree"},
	{"udp", Warn, []string{"gossip-udp"}, "a firewall lets TCP through and not UDP", "gossip goes by UDP"},
	{"relay", Warn, []string{"tailnet-relayed"}, "no direct way between the two was found", "no member is reached by a relay"},
	{"silent", Warn, []string{"mesh_silent", "mesh_quarantine"}, "it is known by gossip and does not answer", "every living member tells its capacity"},
}

// checkMesh says what the running node knows to be wrong.
func checkMesh(ctx context.Context, cfg *config.Config, env Probe) []Check {
	if env.Around == nil {
		return []Check{skip("mesh", "what is around is known to a running node only")}
	}
	around, err := env.Around(ctx)
	if err != nil {
		return []Check{skip("mesh", "the node does not tell what is around: "+err.Error())}
	}
	var checks []Check
	told := slices.Clone(around.Node.Warnings)
	for _, m := range meshChecks {
		var of []status.Warning
		told = slices.DeleteFunc(told, func(w status.Warning) bool {
			mine := slices.Contains(m.about, w.ID)
			if mine {
				of = append(of, w)
			}
			return mine
		})
		checks = append(checks, m.check(of))
	}
	checks = append(checks, checkVersions(around.Cluster))
	checks = append(checks, checkLANPrivacy(cfg, env, around.Node)...)
	checks = append(checks, checkEngines(around.Node)...)
	checks = append(checks, checkKV(cfg, around.KV)...)
	for _, w := range told {
		if !known[w.ID] {
			checks = append(checks, fault(Warn, "node:"+w.ID, [3]string{w.Text, "the running node says so", w.Fix}))
		}
	}
	return checks
}

// known are the node's warnings that other checks find by themselves.
var known = map[string]bool{"config": true, "model_file": true, "plan": true}

func (m meshCheck) check(of []status.Warning) Check {
	if len(of) == 0 {
		return ok(m.id, m.fine)
	}
	var texts, fixes []string
	for _, w := range of {
		texts = append(texts, w.Text)
		if !slices.Contains(fixes, w.Fix) {
			fixes = append(fixes, w.Fix)
		}
	}
	return fault(m.state, m.id, [3]string{strings.Join(texts, "; "), m.cause, strings.Join(fixes, "\n")})
}

// checkVersions names members of other versions. That is right during an update, and wrong for long.
func checkVersions(all status.Cluster) Check {
	const id = "version_skew"
	versions := map[string][]string{}
	for _, m := range all.Members {
		if m.State == "alive" && m.Version != "" {
			versions[m.Version] = append(versions[m.Version], m.Name)
		}
	}
	if len(versions) < 2 {
		return ok(id, "all living members run one version")
	}
	var parts []string
	for version, names := range versions {
		parts = append(parts, version+" on "+strings.Join(names, ", "))
	}
	slices.Sort(parts)
	return fault(Warn, id, [3]string{"the members run different versions: " + strings.Join(parts, "; "),
		"an update has not come to all of them", "update the older ones"})
}

// checkLANPrivacy knows the mark of a macOS that keeps a service from the local network: no route to a host that the same
// program reaches when it is started from a terminal. Apple's own programs are let through, so curl proves nothing.
func checkLANPrivacy(cfg *config.Config, env Probe, node status.Node) []Check {
	const id = "macos_local_network"
	system := env.OS
	if system == "" {
		system = runtime.GOOS
	}
	if system != "darwin" || cfg.Mesh.Network != "lan" {
		return nil
	}
	for _, w := range node.Warnings {
		if strings.Contains(w.Text, "no route to host") {
			return []Check{fault(Fail, id, [3]string{"LAN blocked by macOS: " + w.Text, "macOS lets no program without its owner's consent into the local network; from a terminal the same program may pass",
				"System Settings, Privacy & Security, Local Network: allow viiwork, then restart the node; or use mesh.network: tailnet"})}
		}
	}
	return []Check{ok(id, "macOS lets this node into the local network")}
}

// checkEngines names those that do not serve.
func checkEngines(node status.Node) []Check {
	var checks []Check
	for _, m := range node.Models {
		for _, b := range m.Backends {
			id := "engine:" + b.ID
			switch b.State {
			case "silent":
				checks = append(checks, fault(Fail, id, [3]string{"the engine " + b.ID + " is silent: no byte and no progress", orUnknown(b.Error),
					"it is restarted by itself; see 'viiwork logs " + m.Name + "', and the card with 'viiwork status'"}))
			case "failed", "restarting":
				checks = append(checks, fault(Fail, id, [3]string{"the engine " + b.ID + " is " + b.State, orUnknown(b.Error), "see 'viiwork logs " + m.Name + "'"}))
			}
		}
	}
	if len(checks) == 0 {
		return []Check{ok("engines", "no engine is silent or has failed")}
	}
	return checks
}

func orUnknown(text string) string {
	if text == "" {
		return "it left no last words"
	}
	return text
}

// checkKV says for which models caches are not moved although they should be.
func checkKV(cfg *config.Config, models []status.KVModel) []Check {
	const id = "kv_share"
	if cfg.KVShare.Mode == "off" || models == nil {
		return []Check{skip(id, "caches are not moved between machines")}
	}
	var checks []Check
	for _, m := range models {
		if !m.Enabled {
			checks = append(checks, fault(Warn, id+":"+m.Name, [3]string{"caches of " + m.Name + " are not moved between machines", orUnknown(m.Why),
				"conversations that move are computed anew; docs/routing.md says what is asked of an engine"}))
		}
	}
	if len(checks) == 0 {
		return []Check{ok(id, "caches of all models are moved where that saves time")}
	}
	return checks
}

// checkBudget holds the store of replicas against the disk it grows on.
func checkBudget(cfg *config.Config, env Probe) Check {
	const id = "kv_store"
	if cfg.KVShare.Mode == "off" {
		return skip(id, "no caches are stored")
	}
	at := existing(cfg.Node.StateDir)
	free, err := env.Free(at)
	if err != nil || free >= cfg.KVShare.Store {
		return ok(id, fmt.Sprintf("the disk has room for %s of caches (kv_share.store)", bytesWord(cfg.KVShare.Store)))
	}
	return fault(Warn, id, [3]string{fmt.Sprintf("kv_share.store may grow to %s", bytesWord(cfg.KVShare.Store)),
		fmt.Sprintf("the disk of %s has %s left", at, bytesWord(free)), "lower kv_share.store, make room, or move node.state_dir"})
}

// leastMTU is what a tailnet's packets and those of gossip need.
const leastMTU = 1280

// checkMTU names interfaces that are too narrow.
func checkMTU(env Probe) Check {
	const id = "mtu"
	var narrow []string
	for name, mtu := range env.MTU() {
		if mtu < leastMTU {
			narrow = append(narrow, fmt.Sprintf("%s has %d", name, mtu))
		}
	}
	if len(narrow) == 0 {
		return ok(id, "packets of the mesh fit this machine's interfaces")
	}
	slices.Sort(narrow)
	return fault(Warn, id, [3]string{"packets of the mesh may be lost on the way: " + strings.Join(narrow, ", "),
		fmt.Sprintf("an MTU of %d is needed", leastMTU), fmt.Sprintf("'ip link set dev NAME mtu %d' or more, or keep the mesh off that interface", leastMTU)})
}

// checkNetworks looks for nodes on this machine's LAN that this one will not meet.
func checkNetworks(ctx context.Context, cfg *config.Config, env Probe) Check {
	const id = "network"
	near := slices.DeleteFunc(env.Nearby(ctx), func(name string) bool { return name == cfg.Node.Name })
	if cfg.Mesh.Network != "tailnet" || len(near) == 0 {
		return ok(id, "no node around is on another kind of network")
	}
	return fault(Warn, id, [3]string{strings.Join(near, ", ") + " on this LAN will never meet this node", "they run with mesh.network: lan, this one with tailnet: a mesh has one network",
		"set mesh.network to the same on all machines"})
}
