package tsnode

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// place is one interface with the addresses on it that others can reach.
type place struct {
	iface net.Interface
	nets  []netip.Prefix // address and network of each
}

// inner are interfaces that lead into this machine only. Their addresses repeat from machine to machine: one told to
// others would lead them to themselves.
var inner = []string{"docker", "br-", "veth", "virbr", "cni", "flannel", "cali", "podman", "lxc", "tailscale", "utun"}

// places returns the host's interfaces that face others, or with only set, the one that has this address.
func places(only netip.Addr) []place {
	ifaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var all []place
	for _, iface := range ifaces {
		if iface.Flags&net.FlagUp == 0 {
			continue
		}
		p := place{iface: iface, nets: networks(iface)}
		if only.IsValid() {
			p.nets = slices.DeleteFunc(p.nets, func(n netip.Prefix) bool { return n.Addr() != only })
		} else {
			isInner := func(prefix string) bool { return strings.HasPrefix(iface.Name, prefix) }
			if iface.Flags&net.FlagLoopback != 0 || slices.ContainsFunc(inner, isInner) {
				continue
			}
			p.nets = slices.DeleteFunc(p.nets, func(n netip.Prefix) bool { return !n.Addr().IsGlobalUnicast() })
		}
		if len(p.nets) > 0 {
			all = append(all, p)
		}
	}
	return all
}

func networks(iface net.Interface) []netip.Prefix {
	addrs, err := iface.Addrs()
	if err != nil {
		return nil
	}
	var all []netip.Prefix
	for _, a := range addrs {
		ipnet, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		ones, _ := ipnet.Mask.Size()
		if addr, ok := netip.AddrFromSlice(ipnet.IP); ok {
			all = append(all, netip.PrefixFrom(addr.Unmap(), ones))
		}
	}
	return all
}

// ownAddrs lists the addresses of all, that of the default route first, v4 before v6.
func ownAddrs(all []place) []netip.Addr {
	var addrs []netip.Addr
	for _, p := range all {
		for _, n := range p.nets {
			addrs = append(addrs, n.Addr())
		}
	}
	first := []netip.Addr{outward("udp4", "192.0.2.1:9"), outward("udp6", "[2001:db8::1]:9")}
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return rank(first, a) - rank(first, b) })
	return v4First(addrs)
}

func rank(first []netip.Addr, a netip.Addr) int {
	if slices.Contains(first, a) {
		return 0
	}
	return 1
}

// outward is the address this host would send from to the world. Connecting a UDP socket sends nothing.
func outward(network, to string) netip.Addr {
	c, err := net.Dial(network, to)
	if err != nil {
		return netip.Addr{}
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}
