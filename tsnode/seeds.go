package tsnode

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"time"
)

const (
	maxSeeds      = 256
	maxSeedAddrs  = 8
	lookupPatient = 5 * time.Second
)

// splitSeed cuts host or host:port; port is that given as normal where the seed has none.
func splitSeed(seed string, normal int) (host string, port int) {
	if _, err := netip.ParseAddr(seed); err == nil { // an IPv6 address has colons of its own
		return seed, normal
	}
	host, text, err := net.SplitHostPort(seed)
	if err != nil {
		return seed, normal
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 {
		return host, normal
	}
	return host, port
}

// lookUpSeeds finds the addresses of the owner's seeds. One that has none now is left out until the next time.
func lookUpSeeds(ctx context.Context, seeds []string, gossip int) []Peer {
	var peers []Peer
	for _, seed := range seeds[:min(len(seeds), maxSeeds)] {
		host, port := splitSeed(seed, gossip)
		if addrs := lookUp(ctx, host); len(addrs) > 0 {
			peers = append(peers, Peer{Name: seed, Addrs: addrs, GossipPort: port})
		}
	}
	return peers
}

// lookUp asks the host's name service; an address needs no asking.
func lookUp(ctx context.Context, host string) []netip.Addr {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr.Unmap()}
	}
	ctx, cancel := context.WithTimeout(ctx, lookupPatient)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	var addrs []netip.Addr
	for _, addr := range found[:min(len(found), maxSeedAddrs)] {
		addrs = append(addrs, addr.Unmap())
	}
	return v4First(addrs)
}
