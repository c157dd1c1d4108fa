package tsnode

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

const (
	// lookAround is how often the host's interfaces are read: there is no portable way to be told of a change.
	lookAround = 10 * time.Second
	// askSeeds is how often the names of seeds are looked up.
	askSeeds = time.Minute
)

// lan is this node on the host's own network.
type lan struct {
	cfg     Config
	id      string
	host    netip.Addr // zero = all addresses
	admit   *admitted
	publish func(*view)
	current func() *view
	deaf    error // what keeps mDNS from working; Run's goroutine only
}

func newLAN(cfg Config, dir string, admit *admitted) (*lan, error) {
	l := &lan{cfg: cfg, admit: admit}
	if cfg.Host != "" {
		addr, err := netip.ParseAddr(cfg.Host)
		if err != nil {
			return nil, fmt.Errorf("%q is no IP address: set api.host to one of this machine's addresses, or leave it empty for all", cfg.Host)
		}
		if l.host = addr.Unmap(); l.host.IsUnspecified() {
			l.host = netip.Addr{}
		}
	}
	var err error
	l.id, err = loadID(dir, cfg.Log)
	return l, err
}

// run reads the host's addresses, looks up seeds and speaks mDNS until ctx ends.
func (l *lan) run(ctx context.Context) error {
	r := newRoster(l.id)
	heard := make(chan sighting, 16)
	works := make(chan error, 1)
	mdnsDone := make(chan struct{})
	go func() {
		defer close(mdnsDone)
		if l.cfg.MDNS && !l.host.IsLoopback() { // multicast does not reach loopback
			newMDNS(l, heard, works).run(ctx)
		}
	}()
	defer func() { <-mdnsDone }()

	seeded := make(chan []Peer, 1)
	lookingUp := false
	around, seeds := time.NewTicker(lookAround), time.NewTicker(askSeeds)
	defer around.Stop()
	defer seeds.Stop()
	askNow := func() {
		if !lookingUp && len(l.cfg.Seeds) > 0 {
			lookingUp = true
			go func() { seeded <- lookUpSeeds(ctx, l.cfg.Seeds, l.cfg.GossipPort) }() // a dead name server must not hold up the rest
		}
	}
	defer func() {
		if lookingUp {
			<-seeded
		}
	}()
	askNow()
	for {
		l.tell(r)
		select {
		case <-ctx.Done():
			return nil
		case <-around.C:
		case s := <-heard:
			r.hear(s, time.Now())
		case err := <-works:
			l.mdnsWorks(err)
		case r.seeds = <-seeded:
			lookingUp = false
		case <-seeds.C:
			askNow()
		}
	}
}

// tell publishes what is known now.
func (l *lan) tell(r *roster) {
	v := &view{id: l.id, addrs: l.ownAddrs(), status: Status{State: StateUp}}
	if len(v.addrs) == 0 {
		v.status.State = StateStarting
		v.status.Warnings = []Warning{l.noAddress()}
	}
	if l.deaf != nil {
		v.status.Warnings = append(v.status.Warnings, Warning{ID: "lan-mdns", Text: "other nodes cannot be found by mDNS: " + l.deaf.Error(),
			Fix: "name one of them in mesh.seeds, or set mesh.lan.mdns to false"})
	}
	v.peers = r.peers(v.addrs, l.cfg.GossipPort, time.Now())
	v.known = map[netip.Addr]bool{}
	for _, addr := range v.addrs {
		v.known[addr] = true
	}
	for _, p := range v.peers {
		for _, addr := range p.Addrs {
			v.known[addr] = true
		}
	}
	l.publish(v)
}

// mdnsWorks notes whether it does, and logs when that has changed.
func (l *lan) mdnsWorks(err error) {
	if err != nil && l.deaf == nil {
		l.cfg.Log.Warn("other nodes cannot be found by mDNS", "error", err)
	}
	l.deaf = err
}

func (l *lan) noAddress() Warning {
	if l.host.IsValid() {
		return Warning{ID: "lan-host", Text: fmt.Sprintf("this machine has no address %s", l.host), Fix: "change api.host or bring that interface up"}
	}
	return Warning{ID: "lan-no-address", Text: "this machine has no address that others could reach", Fix: "bring its network up or set api.host"}
}

// ownAddrs is where others reach this node. All of 127.0.0.0/8 is this machine, whether listed at an interface or not.
func (l *lan) ownAddrs() []netip.Addr {
	if l.host.IsLoopback() {
		return []netip.Addr{l.host}
	}
	return ownAddrs(places(l.host))
}

func (l *lan) hostPort(port int) string {
	if !l.host.IsValid() {
		return ":" + strconv.Itoa(port)
	}
	return netip.AddrPortFrom(l.host, uint16(port)).String()
}

func (l *lan) listen(port int) (net.Listener, error) {
	return net.Listen("tcp", l.hostPort(port))
}

func (l *lan) listenPacket(port int) (net.PacketConn, error) {
	return net.ListenPacket("udp", l.hostPort(port))
}

// dial sends from this node's own address where it has just one, so that nodes of one machine can be told apart.
func (l *lan) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	if !l.mayDial(to.Addr()) {
		return nil, ErrNotPeer
	}
	var d net.Dialer
	if l.host.IsValid() && l.host.Is4() == to.Addr().Is4() && l.host.IsLoopback() == to.Addr().IsLoopback() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(l.host, 0))
	}
	return d.DialContext(ctx, "tcp", to.String())
}

// mayDial reports whether addr is a peer's: named by the owner, seen on this network, or told of by a member.
func (l *lan) mayDial(addr netip.Addr) bool {
	v := l.current()
	if v.known[addr] || l.seeded(addr) {
		return true
	}
	return l.admit.has(addr) && reachable(addr, l.host)
}

// seeded reports whether the owner wrote addr down. A seed may be any address, as it is the owner's own word.
func (l *lan) seeded(addr netip.Addr) bool {
	return slices.ContainsFunc(l.cfg.Seeds, func(seed string) bool {
		host, _ := splitSeed(seed, 0)
		a, err := netip.ParseAddr(host)
		return err == nil && a.Unmap() == addr
	})
}

// reachable reports whether addr can be another machine's. Loopback, link-local and multicast ones are how a stranger
// would make this node talk to itself, to a cloud's metadata service, or to everyone at once. A node that lives on
// loopback has its neighbours there.
func reachable(addr, own netip.Addr) bool {
	if addr.IsLoopback() {
		return own.IsLoopback()
	}
	return addr.IsGlobalUnicast()
}

// whoIs knows nobody: anyone on a lan can send from any of its addresses.
func (l *lan) whoIs(context.Context, netip.AddrPort) (Caller, error) { return Caller{}, nil }
