package appliance_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"viiwork/appliance"
	"viiwork/serf"
	"viiwork/tsnode"
)

// TestWhoMayAnswerAndIsNotMetIsAsked: no member by any of its addresses, and nobody whose device is off as long as there
// is company.
func TestWhoMayAnswerAndIsNotMetIsAsked(t *testing.T) {
	peer := func(id string, online bool, addrs ...string) tsnode.Peer {
		p := tsnode.Peer{Name: "peer-" + id, ID: id, Online: online, GossipPort: 7946}
		for _, a := range addrs {
			p.Addrs = append(p.Addrs, netip.MustParseAddr(a))
		}
		return p
	}
	member := func(addr string, state serf.State) serf.Member {
		return serf.Member{State: state, Addr: netip.MustParseAddrPort(addr)}
	}
	self := member("100.64.0.1:7946", serf.StateAlive)
	peers := []tsnode.Peer{
		peer("met", true, "100.64.0.2", "fd7a::2"),
		peer("met-by-v6", true, "100.64.0.3", "fd7a::3"),
		peer("dead", true, "100.64.0.4"),
		peer("new", true, "100.64.0.5"),
		peer("off", false, "100.64.0.6"),
		peer("", false, "192.168.1.7"),
	}
	for name, c := range map[string]struct {
		members []serf.Member
		want    []string
	}{
		"in company": {
			[]serf.Member{self, member("100.64.0.2:7946", serf.StateAlive), member("[fd7a::3]:7946", serf.StateAlive), member("100.64.0.4:7946", serf.StateFailed)},
			[]string{"dead", "new", ""},
		},
		"alone": {[]serf.Member{self}, []string{"met", "met-by-v6", "dead", "new", "off", ""}},
		"another port": {
			[]serf.Member{self, member("100.64.0.2:7947", serf.StateAlive)},
			[]string{"met", "met-by-v6", "dead", "new", ""},
		},
	} {
		var got []string
		for _, p := range appliance.Missing(peers, c.members) {
			got = append(got, p.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: asks %q, want %q", name, got, c.want)
		}
	}
}

// TestWhoHasLostSomebodyLooksOften: a node cannot tell a dead member from the other half of a mesh that was cut, and the
// halves must meet soon after the cable is back.
func TestWhoHasLostSomebodyLooksOften(t *testing.T) {
	alive, failed := serf.Member{State: serf.StateAlive}, serf.Member{State: serf.StateFailed}
	for name, c := range map[string]struct {
		members []serf.Member
		most    time.Duration
	}{
		"alone":                 {[]serf.Member{alive}, 5 * time.Second},
		"in company":            {[]serf.Member{alive, alive, {State: serf.StateLeft}}, time.Minute},
		"one half":              {[]serf.Member{alive, alive, failed}, 5 * time.Second},
		"alone after the split": {[]serf.Member{alive, failed}, 5 * time.Second},
	} {
		pause := time.Second
		if next := appliance.NextPause(pause, c.members); next != 2*pause {
			t.Errorf("%s: after %s comes %s", name, pause, next)
		}
		for range 20 {
			pause = appliance.NextPause(pause, c.members)
		}
		if pause != c.most {
			t.Errorf("%s: looks every %s in the end, want %s", name, pause, c.most)
		}
	}
}
