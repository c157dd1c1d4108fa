package config

import (
	"net"
	"strconv"
)

// Address is one place where the node answers, as host:port, and the keys that say so.
type Address struct{ Keys, Addr string }

// Addresses is where the node answers requests: on network lan at api.host, and at api.local unless api.host covers it.
// On a tailnet it is api.local alone.
func (c *Config) Addresses() []Address {
	var all []Address
	covered := false
	if c.Mesh.Network == "lan" {
		addr := net.JoinHostPort(c.API.Host, strconv.Itoa(c.API.Port))
		all = append(all, Address{"api.host and api.port", addr})
		covered = covers(addr, c.API.Local)
	}
	if c.API.Local != "" && !covered {
		all = append(all, Address{"api.local", c.API.Local})
	}
	return all
}

// covers reports whether a listener on all answers for local as well: the same address, or any address of the family.
func covers(all, local string) bool {
	host, port, _ := net.SplitHostPort(all)
	localHost, localPort, _ := net.SplitHostPort(local)
	if port != localPort {
		return false
	}
	switch ip := net.ParseIP(localHost); {
	case host == localHost, host == "", host == "::": // both families, as Go listens
		return true
	case host == "0.0.0.0":
		return ip == nil || ip.To4() != nil // "localhost" is 127.0.0.1 at least
	}
	return false
}
