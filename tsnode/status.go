package tsnode

import (
	"net/netip"
	"slices"
)

// States of a Node.
const (
	StateStarting      = "starting"       // not up yet
	StateNeedsLogin    = "needs-login"    // nobody has opened Status.LoginURL, or the device's key has expired
	StateNeedsApproval = "needs-approval" // waits for an admin of the tailnet
	StateUp            = "up"
	StateStopped       = "stopped" // Run is over, or the device was switched off
)

// Paths to a Peer.
const (
	PathDirect  = "direct"
	PathRelayed = "relayed" // by a server, which is slow
)

// Status is how a Node is doing.
type Status struct {
	State    string
	LoginURL string // to be opened by the owner; "" when no login is needed or its address is not known yet
	DNSName  string // tailnet: the device's full name without the last dot
	Warnings []Warning
}

// Warning is something wrong that the owner can mend.
type Warning struct {
	ID   string // stable, for scripts
	Text string // what is wrong
	Fix  string // what to do
}

// Peer is another machine of the network that may be one of ours.
type Peer struct {
	Name       string // tailnet: the first label of its DNS name; lan: what it announced, or the seed as written
	ID         string // stable; "" for a seed
	Addrs      []netip.Addr
	APIPort    int // 0 = it did not say
	GossipPort int
	Online     bool   // the network believes it to be there; seeds are never known to be
	DNSName    string // tailnet: the device's full name without the last dot
	Path       string // tailnet: direct or relayed, as packets go now; "" = none went lately
}

// Caller is who sent a request, as the network knows it. On a lan nobody is known, and only Local means something.
type Caller struct {
	Local    bool     // came from a loopback address
	Node     string   // the device's name: first label of its DNS name
	StableID string   // the device's
	User     string   // display name
	Login    string   // login name; "tagged-devices" for a tagged device
	Tags     []string // of the device
}

// view is all that is known at one moment. It is never changed once published.
type view struct {
	id     string
	addrs  []netip.Addr // own, v4 first
	status Status
	peers  []Peer              // may be ours
	known  map[netip.Addr]bool // may be dialled
}

// sameStatus reports whether a and b would read alike to the owner.
func sameStatus(a, b Status) bool {
	return a.State == b.State && a.LoginURL == b.LoginURL && a.DNSName == b.DNSName && slices.Equal(a.Warnings, b.Warnings)
}

// samePeers reports whether a and b name the same peers with the same addresses, all as reachable as before. By which path
// packets go is no news: it changes often, and whoever shows it asks.
func samePeers(a, b []Peer) bool {
	return slices.EqualFunc(a, b, func(x, y Peer) bool {
		return x.Name == y.Name && x.ID == y.ID && x.Online == y.Online &&
			x.APIPort == y.APIPort && x.GossipPort == y.GossipPort && slices.Equal(x.Addrs, y.Addrs)
	})
}

// v4First sorts addresses by family and keeps their order otherwise.
func v4First(addrs []netip.Addr) []netip.Addr {
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	return addrs
}
