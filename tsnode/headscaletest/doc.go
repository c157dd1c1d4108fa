// Package headscaletest starts a real Headscale for tests: a control server that is not Tailscale's and is no fake
// either. `make test-headscale` builds one and names it; without it tests skip.
//
// Each [Server] is a process of its own on 127.0.0.1 with an own database in a temporary folder, a relay and a STUN
// server of its own, and no way to any other machine. It ends with its test.
package headscaletest
