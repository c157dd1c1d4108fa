package tsnode

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tailscale.com/ipn"
	"tailscale.com/ipn/ipnstate"
)

// watch turns the device's state into what a Node publishes. It belongs to Run's goroutine.
type watch struct {
	cfg     Config
	publish func(*view)

	wasUp    bool
	waiting  bool // a login is wanted and no address for it is known
	begun    time.Time
	lost     time.Time // since when the control server has been out of reach; zero while it is not
	failed   *failure  // the last refusal, until the device comes up
	loginURL string    // the last one logged
	last     view
	relayed  map[string]time.Time // since when traffic to a peer goes by a relay, by its id
}

func newWatch(cfg Config, publish func(*view)) *watch {
	return &watch{cfg: cfg, publish: publish, begun: time.Now(), relayed: map[string]time.Time{}, last: view{status: Status{State: StateStarting}}}
}

// fail publishes a refusal beside what was known before.
func (w *watch) fail(f failure) {
	w.failed = &f
	v := w.last
	warning := warnRefused(f)
	v.status.Warnings = slices.DeleteFunc(slices.Clone(v.status.Warnings), func(old Warning) bool { return old.ID == warning.ID })
	v.status.Warnings = append(v.status.Warnings, warning)
	w.publish(&v)
}

// see publishes what s says.
func (w *watch) see(s *ipnstate.Status, now time.Time) {
	v := view{id: w.last.id, addrs: w.last.addrs, known: map[netip.Addr]bool{}}
	v.status.State = stateOf(s)
	w.waiting = s.BackendState == ipn.NeedsLogin.String() && s.AuthURL == ""
	if v.status.State == StateUp {
		w.wasUp, w.failed = true, nil
	}
	if s.Self != nil && len(s.TailscaleIPs) > 0 {
		v.id = string(s.Self.ID)
		v.addrs = v4First(slices.Clone(s.TailscaleIPs))
		v.status.DNSName = strings.TrimSuffix(s.Self.DNSName, ".")
	}
	if v.status.State == StateNeedsLogin {
		v.status.LoginURL = s.AuthURL
	}
	for _, addr := range v.addrs {
		v.known[addr] = true
	}
	for _, p := range s.Peer {
		for _, addr := range p.TailscaleIPs {
			v.known[addr] = true
		}
		if w.mayBeOurs(s.Self, p) {
			v.peers = append(v.peers, w.peer(p))
			w.noteRelay(p, now)
		}
	}
	slices.SortFunc(v.peers, func(a, b Peer) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	v.status.Warnings = w.warnings(s, v.status, now)
	w.log(v.status)
	w.last = v
	w.publish(&v)
}

// stateOf names the device's state in our words.
func stateOf(s *ipnstate.Status) string {
	switch s.BackendState {
	case ipn.Running.String():
		if len(s.TailscaleIPs) > 0 {
			return StateUp
		}
	case ipn.NeedsLogin.String():
		if s.AuthURL == "" && !s.HaveNodeKey {
			return StateStarting // every start passes through it for a moment, also with a key
		}
		return StateNeedsLogin
	case ipn.NeedsMachineAuth.String():
		return StateNeedsApproval
	case ipn.Stopped.String():
		return StateStopped
	}
	return StateStarting
}

// mayBeOurs reports whether p shares a tag with this device, or is named like one of ours, or by the owner.
func (w *watch) mayBeOurs(self, p *ipnstate.PeerStatus) bool {
	tags := w.cfg.Tags
	if self != nil && self.Tags != nil {
		tags = self.Tags.AsSlice() // a tagged key can give others than those asked for
	}
	if p.Tags != nil && slices.ContainsFunc(tags, func(tag string) bool { return slices.Contains(p.Tags.AsSlice(), tag) }) {
		return true
	}
	name := firstLabel(p.DNSName)
	return strings.HasPrefix(name, w.cfg.Prefix) || slices.ContainsFunc(w.cfg.Seeds, func(seed string) bool { return names(seed, p) })
}

// names reports whether the owner's seed means p: by name, full name or address.
func names(seed string, p *ipnstate.PeerStatus) bool {
	host, _ := splitSeed(seed, 0)
	if addr, err := netip.ParseAddr(host); err == nil {
		return slices.Contains(p.TailscaleIPs, addr)
	}
	host = strings.TrimSuffix(host, ".")
	return strings.EqualFold(host, firstLabel(p.DNSName)) || strings.EqualFold(host, strings.TrimSuffix(p.DNSName, "."))
}

func (w *watch) peer(p *ipnstate.PeerStatus) Peer {
	gossip := w.cfg.GossipPort
	for _, seed := range w.cfg.Seeds {
		if names(seed, p) {
			_, gossip = splitSeed(seed, w.cfg.GossipPort)
		}
	}
	return Peer{
		Name:       firstLabel(p.DNSName),
		ID:         string(p.ID),
		Addrs:      v4First(slices.Clone(p.TailscaleIPs)),
		GossipPort: gossip,
		Online:     p.Online && !p.Expired,
		DNSName:    strings.TrimSuffix(p.DNSName, "."),
		Path:       pathOf(p),
	}
}

// pathOf says how packets to a peer go. A device that nothing was said to for some time has none.
func pathOf(p *ipnstate.PeerStatus) string {
	switch {
	case !p.Active || !p.Online:
		return ""
	case p.CurAddr != "":
		return PathDirect
	case p.PeerRelay != "" || p.Relay != "":
		return PathRelayed
	}
	return ""
}

// firstLabel is a device's name. Its Hostname is not: that is what it asked for, and two can have the same.
func firstLabel(dnsName string) string {
	name, _, _ := strings.Cut(dnsName, ".")
	return name
}

// log tells of changes of the state, once each.
func (w *watch) log(s Status) {
	if s.LoginURL != "" && s.LoginURL != w.loginURL {
		w.cfg.Log.Info("this device waits for a login: open the address in a browser", "url", s.LoginURL)
	}
	w.loginURL = s.LoginURL
	if s.State != w.last.status.State {
		w.cfg.Log.Info("tailnet state", "state", s.State, "name", s.DNSName)
	}
	for _, warning := range s.Warnings {
		known := func(old Warning) bool { return old.ID == warning.ID }
		if !slices.ContainsFunc(w.last.status.Warnings, known) {
			w.cfg.Log.Warn(warning.Text, "id", warning.ID, "fix", warning.Fix)
		}
	}
}
