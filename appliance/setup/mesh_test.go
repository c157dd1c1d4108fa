package setup_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"viiwork/appliance/setup"
	"viiwork/appliance/status"
)

// TestWhatANodeKnowsIsSaidWithCauseAndFix: one thing is wrong at a time.
func TestWhatANodeKnowsIsSaidWithCauseAndFix(t *testing.T) {
	warns := func(id string) func(*setup.Probe, *setup.Around) {
		return func(_ *setup.Probe, a *setup.Around) {
			a.Node.Warnings = []status.Warning{{ID: id, Text: "cellar is told of", Fix: "mend it"}}
		}
	}
	engine := func(state string) func(*setup.Probe, *setup.Around) {
		return func(_ *setup.Probe, a *setup.Around) {
			a.Node.Models[0].Backends[0].State, a.Node.Models[0].Backends[0].Error = state, "no progress for 120 s"
		}
	}
	for name, c := range map[string]struct {
		broken func(*setup.Probe, *setup.Around)
		id     string
		state  setup.State
		text   string
	}{
		"another secret":       {warns("gossip-secret"), "secret", setup.Fail, "cellar"},
		"refused signatures":   {warns("mesh_secret"), "secret", setup.Fail, "cellar"},
		"a secret and none":    {warns("mesh_mode"), "mode", setup.Fail, "cellar"},
		"an open stranger":     {warns("gossip-no-secret"), "mode", setup.Fail, "cellar"},
		"a name twice":         {warns("name-clash"), "name", setup.Fail, "cellar"},
		"a device's name":      {warns("tailnet-name"), "name", setup.Fail, "cellar"},
		"wire versions":        {warns("mesh_version"), "version", setup.Fail, "cellar"},
		"clocks":               {warns("mesh_clock"), "clock_skew", setup.Warn, "cellar"},
		"half the traffic":     {warns("gossip-udp"), "udp", setup.Warn, "cellar"},
		"a relay":              {warns("tailnet-relayed"), "relay", setup.Warn, "cellar"},
		"a silent member":      {warns("mesh_silent"), "silent", setup.Warn, "cellar"},
		"cards lost in cgroup": {warns("gpu"), "node:gpu", setup.Warn, "cellar"},
		"versions":             {func(_ *setup.Probe, a *setup.Around) { a.Cluster.Members[1].Version = "2.0" }, "version_skew", setup.Warn, "2.0 on cellar; 2.1 on n"},
		"engine silent":        {engine("silent"), "engine:plain#0", setup.Fail, "silent"},
		"engine failed":        {engine("failed"), "engine:plain#0", setup.Fail, "failed"},
		"caches stay": {func(_ *setup.Probe, a *setup.Around) {
			a.KV[0] = status.KVModel{Name: "plain", Why: "its state does not restore"}
		}, "kv_share:plain", setup.Warn, "not moved"},
		"store and disk": {func(p *setup.Probe, _ *setup.Around) { p.Free = func(string) (int64, error) { return 10 * gib, nil } }, "kv_store", setup.Warn, "32.0 GiB"},
		"narrow interface": {func(p *setup.Probe, _ *setup.Around) {
			p.MTU = func() map[string]int { return map[string]int{"wg0": 1000} }
		}, "mtu", setup.Warn, "wg0 has 1000"},
		"two networks": {func(p *setup.Probe, _ *setup.Around) {
			p.Nearby = func(context.Context) []string { return []string{"cellar", "n"} }
		}, "network", setup.Warn, "cellar on this LAN"},
	} {
		t.Run(name, func(t *testing.T) {
			_, text := machine(t)
			env, all := healthy(), around()
			c.broken(&env, &all)
			env.Around = func(context.Context) (setup.Around, error) { return all, nil }
			checks := setup.Doctor(t.Context(), parse(t, text), env)
			got := find(checks, c.id)
			if got.State != c.state || !strings.Contains(got.Text, c.text) || got.Cause == "" || got.Fix == "" {
				t.Errorf("got %+v", got)
			}
			for _, other := range checks {
				if other.ID != c.id && other.State != setup.OK && other.State != setup.Skip {
					t.Errorf("also %+v", other)
				}
			}
		})
	}
}

// TestAMacKeptFromItsLANIsNamed: the mark is a route that is missing for a service alone.
func TestAMacKeptFromItsLANIsNamed(t *testing.T) {
	_, text := machine(t)
	env, all := healthy(), around()
	env.OS = "darwin"
	env.Around = func(context.Context) (setup.Around, error) { return all, nil }
	cfg := parse(t, strings.Replace(text, "mesh: {open: true}", "mesh: {open: true, network: lan}", 1))
	if got := find(setup.Doctor(t.Context(), cfg, env), "macos_local_network"); got.State != setup.OK {
		t.Errorf("got %+v", got)
	}
	all.Node.Warnings = []status.Warning{{ID: "mesh_silent", Text: "cellar does not tell its capacity: dial tcp 192.168.1.2:8086: connect: no route to host", Fix: "look there"}}
	if got := find(setup.Doctor(t.Context(), cfg, env), "macos_local_network"); got.State != setup.Fail || !strings.Contains(got.Fix, "Local Network") {
		t.Errorf("got %+v", got)
	}
}

func TestWithoutANodeNothingIsSaidOfTheMesh(t *testing.T) {
	_, text := machine(t)
	env := healthy()
	for _, ask := range []func(context.Context) (setup.Around, error){nil, func(context.Context) (setup.Around, error) { return setup.Around{}, errors.New("away") }} {
		env.Around = ask
		checks := setup.Doctor(t.Context(), parse(t, text), env)
		if got := find(checks, "mesh"); got.State != setup.Skip || find(checks, "secret").State != "missing" {
			t.Errorf("got %+v", got)
		}
	}
}

// TestPreflightNamesWhatIsMissing before a machine has any configuration.
func TestPreflightNamesWhatIsMissing(t *testing.T) {
	needs := setup.Needs{Port: 8086, Gossip: 7946, StateDir: t.TempDir()}
	env := healthy()
	env.Docker = func(context.Context) error { return nil }
	for _, c := range setup.Preflight(t.Context(), needs, env) {
		if c.State != setup.OK {
			t.Errorf("on a healthy machine: %+v", c)
		}
	}
	env.HandOn = func(context.Context, string) error { return errors.New("unknown runtime: nvidia") }
	if got := find(setup.Preflight(t.Context(), needs, env), "gpu:containers"); got.State != setup.Fail || got.Fix == "" {
		t.Errorf("Docker keeps the cards: %+v", got)
	}
	env.Image = func(context.Context, string) error { return errors.New("no such image") }
	if got := find(setup.Preflight(t.Context(), needs, env), "gpu:containers"); got.State != setup.Skip {
		t.Errorf("nothing to try it with: %+v", got)
	}
	env.Docker = func(context.Context) error { return errors.New("permission denied: join the group docker") }
	if got := find(setup.Preflight(t.Context(), needs, env), "docker"); got.State != setup.Fail || !strings.Contains(got.Cause, "group docker") {
		t.Errorf("got %+v", got)
	}
	needs.NoDocker = true
	if got := find(setup.Preflight(t.Context(), needs, env), "docker"); got.State != "missing" {
		t.Errorf("asked for Docker without need: %+v", got)
	}
}
