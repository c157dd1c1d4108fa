// Package localcontrol is a tailnet on one machine: a control server, a relay (DERP) and an address service (STUN) in
// this process, for tests and for the demo. Real devices join it and talk to each other over WireGuard.
//
// It listens on 127.0.0.1 only and keeps everything in memory, keys included: when it ends, so does the tailnet. It lets
// in whoever reaches it, and its control server is Tailscale's own test server, which a malformed request from this
// machine can bring down. It is never to serve a mesh.
package localcontrol
