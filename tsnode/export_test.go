package tsnode

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"tailscale.com/client/local"
	"tailscale.com/ipn/ipnstate"
)

// Heard is one node read out of a packet.
type Heard struct {
	ID, Name            string
	APIPort, GossipPort int
	Addrs               []netip.Addr
}

// ParsePacket reads an mDNS packet as a stranger may send it.
func ParsePacket(packet []byte) (asks int, nodes []Heard, ttl time.Duration) {
	said := parse(packet)
	for _, a := range said.nodes {
		nodes = append(nodes, Heard{a.id, a.name, a.apiPort, a.gossipPort, a.addrs})
	}
	return len(said.asks), nodes, said.ttl
}

// Announce builds an announcement.
func Announce(h Heard, ttl time.Duration) ([]byte, error) {
	return announcement{h.ID, h.Name, h.APIPort, h.GossipPort, h.Addrs}.pack(ttl)
}

// Query builds the question who is here.
func Query() ([]byte, error) { return packQuery() }

// Believed applies the rule of what is on the link.
func Believed(network string, said []netip.Addr, from netip.Addr) []netip.Addr {
	return believed(place{nets: []netip.Prefix{netip.MustParsePrefix(network)}}, said, from)
}

// Roster holds sightings.
type Roster struct{ r *roster }

// NewRoster makes one for the node own.
func NewRoster(own string) Roster { return Roster{newRoster(own)} }

// Hear notes one sighting of h at its first address.
func (r Roster) Hear(h Heard, lasts time.Duration) {
	r.r.hear(sighting{h.ID, h.Name, h.APIPort, h.GossipPort, h.Addrs[0], lasts}, time.Now())
}

// Peers lists everyone.
func (r Roster) Peers() []Peer { return r.r.peers(nil, 0, time.Now()) }

// SplitSeed cuts a seed.
func SplitSeed(seed string, normal int) (string, int) { return splitSeed(seed, normal) }

// Follow reads the state of a device that answers by do.
func Follow(ctx context.Context, do func(*http.Request) (*http.Response, error)) error {
	t := &tailnet{cfg: Config{Log: slog.New(slog.DiscardHandler)}}
	client := &local.Client{Transport: roundTripper(do), OmitAuth: true}
	return t.follow(ctx, client, newWatch(t.cfg, func(*view) {}))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (do roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return do(r) }

// RelayIsPlain looks for a relay without TLS at a control server.
func RelayIsPlain(ctx context.Context, controlURL string) bool { return relayIsPlain(ctx, controlURL) }

// JoinPackets makes one connection of several.
func JoinPackets(conns ...net.PacketConn) net.PacketConn { return joinPackets(conns) }

// See returns what a device published after each of the library's states, seen a step apart.
func See(cfg Config, step time.Duration, states ...*ipnstate.Status) []Status {
	if err := cfg.check(); err != nil {
		panic(err)
	}
	var all []Status
	w := newWatch(cfg, func(v *view) { all = append(all, v.status) })
	now := w.begun
	for _, s := range states {
		w.see(s, now)
		now = now.Add(step)
	}
	return all
}

// PathTo is how packets to the only peer of a state go.
func PathTo(cfg Config, s *ipnstate.Status) string {
	if err := cfg.check(); err != nil {
		panic(err)
	}
	path := ""
	newWatch(cfg, func(v *view) { path = v.peers[0].Path }).see(s, time.Now())
	return path
}

// DialAgain is one connection out of several tries.
func DialAgain(ctx context.Context, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	return newDials().again(ctx, dial)
}

// Dials are those of one device.
type Dials struct{ d *dials }

// NewDials has none yet.
func NewDials() Dials { return Dials{newDials()} }

// Again is DialAgain.
func (d Dials) Again(ctx context.Context, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	return d.d.again(ctx, dial)
}

// End ends them and waits.
func (d Dials) End() {
	d.d.end()
	d.d.wait()
}
