package tsnode_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"viiwork/tsnode"
	"viiwork/tsnode/headscaletest"
)

// headscaleDevice is a config for a node that joins c by key.
func headscaleDevice(t *testing.T, c *headscaletest.Server, name, key string) tsnode.Config {
	return tsnode.Config{
		Network: tsnode.Tailnet, Name: name, StateDir: t.TempDir(),
		APIPort: 8086, GossipPort: 7946, ControlURL: c.URL(), AuthKey: key,
		Log: quiet(), Getenv: func(string) string { return "" },
	}
}

// TestHeadscaleDevicesMeetByTag: the tag comes from the key, and is what they find and know each other by.
func TestHeadscaleDevicesMeetByTag(t *testing.T) {
	c := headscaletest.Start(t)
	key := c.AuthKey(t)
	cfgA, cfgB := headscaleDevice(t, c, "a", key), headscaleDevice(t, c, "b", key)
	cfgA.Hostname, cfgB.Hostname = "one", "another" // nothing to be found by but the tag
	began := time.Now()
	a, b := up(t, cfgA), up(t, cfgB)
	t.Logf("both up after %v", time.Since(began).Round(time.Millisecond))
	l, err := b.ListenStream(8086)
	if err != nil {
		t.Fatal(err)
	}
	echo(t, l)
	began = time.Now()
	exchange(t, a, address(b, 0, 8086), "over v4")
	t.Logf("first exchange after %v", time.Since(began).Round(time.Millisecond))
	exchange(t, a, address(b, 1, 8086), "over v6")
	if len(a.Status().Warnings) > 0 || a.Status().DNSName != "one.mesh.test" {
		t.Errorf("status is %+v", a.Status())
	}
	await(t, "each to be the other's peer", func() bool { return hasPeer(a, "another", b.ID()) && hasPeer(b, "one", a.ID()) })
	who, err := b.WhoIs(bounded(t), netip.AddrPortFrom(a.Addrs()[0], 40000))
	if err != nil {
		t.Fatal(err)
	}
	if who.Local || who.Node != "one" || who.StableID != a.ID() || who.Login != "tagged-devices" || !slices.Contains(who.Tags, headscaletest.Tag) {
		t.Errorf("the caller is %+v", who)
	}
}

func hasPeer(n *running, name, id string) bool {
	return slices.ContainsFunc(n.Peers(), func(p tsnode.Peer) bool { return p.Name == name && p.ID == id && p.Online })
}

// TestHeadscaleRenamesTheSecondOfAName: the control server gives it a suffix, and the owner hears of it.
func TestHeadscaleRenamesTheSecondOfAName(t *testing.T) {
	c := headscaletest.Start(t)
	key := c.AuthKey(t)
	first := up(t, headscaleDevice(t, c, "a", key))
	second := up(t, headscaleDevice(t, c, "a", key))
	await(t, "a suffix", func() bool { return strings.HasPrefix(second.Status().DNSName, "viiwork-a-1.") })
	if !hasWarning(second.Status(), "tailnet-name") || hasWarning(first.Status(), "tailnet-name") {
		t.Errorf("warnings are %+v and %+v", first.Status(), second.Status())
	}
	if first.ID() == second.ID() || first.ID() == "" {
		t.Errorf("both are %q", first.ID())
	}
	await(t, "the other under its own name", func() bool { return hasPeer(first, "viiwork-a-1", second.ID()) })
}

// TestHeadscaleExpiryIsNamedAndHeals: an admin ends a device's key, and takes it back.
func TestHeadscaleExpiryIsNamedAndHeals(t *testing.T) {
	c := headscaletest.Start(t)
	for kind, key := range map[string]string{"user": c.UserKey(t), "tagged": c.AuthKey(t)} {
		t.Run(kind, func(t *testing.T) {
			a, b := up(t, headscaleDevice(t, c, kind+"-a", key)), up(t, headscaleDevice(t, c, kind+"-b", key))
			l, err := b.ListenStream(8086)
			if err != nil {
				t.Fatal(err)
			}
			echo(t, l)
			exchange(t, a, address(b, 0, 8086), "before")
			began := time.Now()
			c.Expire(t, "viiwork-"+kind+"-a", false)
			await(t, "the warning", func() bool { return hasWarning(a.Status(), "tailnet-key-expired") })
			t.Logf("noticed after %v", time.Since(began).Round(time.Millisecond))
			if s := a.Status(); s.State != tsnode.StateNeedsLogin {
				t.Errorf("the state is %+v", s)
			}
			began = time.Now()
			c.Expire(t, "viiwork-"+kind+"-a", true)
			await(t, "the device to be up", func() bool { return a.Status().State == tsnode.StateUp })
			t.Logf("healed after %v", time.Since(began).Round(time.Millisecond))
			exchange(t, a, address(b, 0, 8086), "after")
		})
	}
}
