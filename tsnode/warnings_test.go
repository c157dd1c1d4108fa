package tsnode_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"tailscale.com/ipn/ipnstate"
	"tailscale.com/types/key"

	"viiwork/tsnode"
)

// state is one of a device called name.
func state(backend, name string, online bool, expires time.Time) *ipnstate.Status {
	s := &ipnstate.Status{
		BackendState: backend, HaveNodeKey: true,
		TailscaleIPs: []netip.Addr{netip.MustParseAddr("100.64.0.1")},
		Self:         &ipnstate.PeerStatus{ID: "n1", DNSName: name + ".example.ts.net.", Online: online},
	}
	if !expires.IsZero() {
		s.Self.KeyExpiry = &expires
	}
	return s
}

func TestWhatIsWrongIsSaidAndWhatToDo(t *testing.T) {
	never, soon, past := time.Time{}, time.Now().Add(48*time.Hour), time.Now().Add(-time.Hour)
	fine := state("Running", "viiwork-a", true, never)
	lost := state("Running", "viiwork-a", false, never)
	silent := &ipnstate.Status{BackendState: "NoState"}
	peered := func(relay, direct string, active bool) *ipnstate.Status {
		s := state("Running", "viiwork-a", true, never)
		s.Peer = map[key.NodePublic]*ipnstate.PeerStatus{{}: {ID: "n2", DNSName: "viiwork-b.example.ts.net.", Online: true, Active: active, Relay: relay, CurAddr: direct}}
		return s
	}
	relayed, direct := peered("fra", "", true), peered("fra", "192.0.2.1:41641", true)
	for name, c := range map[string]struct {
		step   time.Duration
		states []*ipnstate.Status
		want   string
	}{
		"nothing":                   {0, []*ipnstate.Status{fine}, ""},
		"suffix":                    {0, []*ipnstate.Status{state("Running", "viiwork-a-1", true, never)}, "tailnet-name"},
		"key expires soon":          {0, []*ipnstate.Status{state("Running", "viiwork-a", true, soon)}, "tailnet-key-expiring"},
		"key far from expiry":       {0, []*ipnstate.Status{state("Running", "viiwork-a", true, soon.AddDate(0, 3, 0))}, ""},
		"key expired":               {0, []*ipnstate.Status{fine, state("NeedsLogin", "viiwork-a", false, past)}, "tailnet-key-expired"},
		"logged out":                {0, []*ipnstate.Status{fine, state("NeedsLogin", "viiwork-a", false, never)}, "tailnet-logged-out"},
		"approval":                  {0, []*ipnstate.Status{state("NeedsMachineAuth", "viiwork-a", true, never)}, "tailnet-approval"},
		"switched off":              {0, []*ipnstate.Status{fine, state("Stopped", "viiwork-a", false, never)}, "tailnet-stopped"},
		"control lost for a moment": {20 * time.Second, []*ipnstate.Status{fine, lost, lost}, ""},
		"control lost":              {20 * time.Second, []*ipnstate.Status{fine, lost, lost, lost}, "tailnet-control"},
		"control back":              {20 * time.Second, []*ipnstate.Status{lost, lost, lost, fine}, ""},
		"control lost now and then": {20 * time.Second, []*ipnstate.Status{lost, lost, fine, lost, lost, fine, lost}, ""},
		"control never there":       {20 * time.Second, []*ipnstate.Status{silent, silent, silent}, "tailnet-control"},
		"relayed":                   {time.Minute, []*ipnstate.Status{relayed, relayed, relayed}, "tailnet-relayed"},
		"relayed at first":          {time.Minute, []*ipnstate.Status{relayed, relayed, direct, relayed}, ""},
		"relayed and silent":        {time.Minute, []*ipnstate.Status{relayed, relayed, peered("fra", "", false)}, ""},
		"two things":                {0, []*ipnstate.Status{state("Running", "viiwork-a-1", true, soon)}, "tailnet-key-expiring tailnet-name"},
	} {
		cfg := tsnode.Config{Network: tsnode.Tailnet, Name: "a", StateDir: "/nowhere"}
		said := tsnode.See(cfg, c.step, c.states...)
		var ids []string
		for _, w := range said[len(said)-1].Warnings {
			ids = append(ids, w.ID)
			if w.Text == "" || w.Fix == "" {
				t.Errorf("%s: %+v lacks something", name, w)
			}
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestADeviceThatNeverWasUpIsNotSaidToHavePeers: what the owner can rely on meanwhile is another thing before and after.
func TestADeviceThatNeverWasUpIsNotSaidToHavePeers(t *testing.T) {
	silent, fine, lost := &ipnstate.Status{BackendState: "NoState"}, state("Running", "viiwork-a", true, time.Time{}), state("Running", "viiwork-a", false, time.Time{})
	cfg := tsnode.Config{Network: tsnode.Tailnet, Name: "a", StateDir: "/nowhere", ControlURL: "https://head.example"}
	for _, c := range []struct {
		states    []*ipnstate.Status
		text, fix string
	}{
		{[]*ipnstate.Status{silent, silent, silent}, "serves its own machine only", "mesh.tailnet.control_url"},
		{[]*ipnstate.Status{fine, lost, lost, lost}, "known peers stay reachable", "https://head.example"},
	} {
		said := tsnode.See(cfg, 20*time.Second, c.states...)
		w := said[len(said)-1].Warnings
		if len(w) != 1 || !strings.Contains(w[0].Text, c.text) || !strings.Contains(w[0].Fix, c.fix) {
			t.Errorf("%+v, want %q and %q", w, c.text, c.fix)
		}
	}
}

// TestChangesAreTold waits for a peer by nothing but the token that its arrival leaves.
func TestChangesAreTold(t *testing.T) {
	a := run(t, neighbour(t, "a", "127.0.0.61", "127.0.0.62"))
	for len(a.Peers()) == 0 {
		select {
		case <-a.Changes():
		case <-time.After(patience):
			t.Fatal("the seed's arrival was not told")
		}
	}
}

// TestThePathToAPeerIsTold: of one that nothing was said to for some time none is.
func TestThePathToAPeerIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		peer ipnstate.PeerStatus
		want string
	}{
		"direct":            {ipnstate.PeerStatus{Active: true, Online: true, CurAddr: "192.0.2.1:41641", Relay: "fra"}, tsnode.PathDirect},
		"by a relay":        {ipnstate.PeerStatus{Active: true, Online: true, Relay: "fra"}, tsnode.PathRelayed},
		"by another device": {ipnstate.PeerStatus{Active: true, Online: true, PeerRelay: "192.0.2.7:7777:vni:1"}, tsnode.PathRelayed},
		"quiet":             {ipnstate.PeerStatus{Online: true, CurAddr: "192.0.2.1:41641", Relay: "fra"}, ""},
		"away":              {ipnstate.PeerStatus{Active: true, Relay: "fra"}, ""},
		"not known yet":     {ipnstate.PeerStatus{Active: true, Online: true}, ""},
	} {
		s := state("Running", "viiwork-a", true, time.Time{})
		c.peer.ID, c.peer.DNSName = "n2", "viiwork-b.example.ts.net."
		s.Peer = map[key.NodePublic]*ipnstate.PeerStatus{{}: &c.peer}
		if got := tsnode.PathTo(tsnode.Config{Network: tsnode.Tailnet, Name: "a", StateDir: "/nowhere"}, s); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
