// Package tsnode is this machine's place on the network its mesh runs over: it listens, dials, sends packets, says who
// is calling and who else is here.
//
// One [Node], two networks behind it. On a tailnet the node is a device of its own (Tailscale or Headscale), inside this
// process: no tailscaled is needed, and none on the machine is touched. On a lan it uses the host's own addresses, and
// finds others by mDNS and by the owner's seeds.
//
// It promises: listeners answer on this node's own addresses only; DialContext reaches nothing but peers of the network,
// whatever address it is given; a login that nobody finishes, an expired key or a lost control server ends nothing: the
// node says so in its [Status], keeps what works, and goes on by itself when it is mended. Peers are candidates: that
// one of them is a viiwork node, and of this mesh, is for the caller to find out.
//
// It does not promise secrecy on a lan, where anyone can send from any address: messages there are signed by whoever
// sends them.
//
// New takes the lock of the state directory and starts nothing. Run owns every goroutine, and writes the state that all
// other methods read; these may be called from any goroutine, before, during and after Run.
package tsnode
