package tsnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrNotPeer is returned by DialContext for an address that is no peer's. Nothing was sent.
	ErrNotPeer = errors.New("no peer of this network has the address")
	// ErrNotUp is returned while the node has no place on its network, or none any more.
	ErrNotUp = errors.New("the node is not on its network")
	// ErrUnknownCaller is returned by WhoIs for an address that no device of the tailnet has.
	ErrUnknownCaller = errors.New("no device of the tailnet has the caller's address")
	// ErrHangs is returned by Run for a tailnet's device that answers nothing any more, not even its own end: what of it is in
	// this process stays there, and only another process can be the device again.
	ErrHangs = errors.New("the device of the tailnet hangs: only a new start of the program brings it back")
)

// dialPatience bounds every dial: one to a device that is off would hang until its context ends. It is longer than 5 s
// because the first handshake with a device that has just joined can be lost, and is repeated only then.
const dialPatience = 10 * time.Second

// network is what differs between a tailnet and a lan.
type network interface {
	run(ctx context.Context) error
	listen(port int) (net.Listener, error)
	listenPacket(port int) (net.PacketConn, error)
	dial(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	whoIs(ctx context.Context, remote netip.AddrPort) (Caller, error)
}

// Node is this machine on its mesh's network.
type Node struct {
	cfg     Config
	network network
	admit   *admitted
	lock    *dirLock

	view    atomic.Pointer[view] // written by Run only
	ready   chan struct{}
	once    sync.Once
	changes chan struct{} // holds one
}

// New checks cfg and takes the lock of <StateDir>/tsnode. It starts nothing. A Node that is never run must be closed.
func New(cfg Config) (*Node, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("preparing the network: %w", err)
	}
	dir := filepath.Join(cfg.StateDir, "tsnode")
	lock, err := lockDir(dir)
	if err != nil {
		return nil, fmt.Errorf("preparing the network: %w", err)
	}
	n := &Node{cfg: cfg, lock: lock, admit: &admitted{}, ready: make(chan struct{}), changes: make(chan struct{}, 1)}
	n.view.Store(&view{status: Status{State: StateStarting}})
	if cfg.Network == Tailnet {
		n.network = &tailnet{cfg: cfg, dir: dir, publish: n.publish, current: n.view.Load}
		return n, nil
	}
	l, err := newLAN(cfg, dir, n.admit)
	if err != nil {
		lock.release()
		return nil, fmt.Errorf("preparing the network: %w", err)
	}
	l.publish, l.current = n.publish, n.view.Load
	n.view.Store(&view{id: l.id, status: Status{State: StateStarting}})
	n.network = l
	return n, nil
}

// Close gives the state directory back. Run does it at its end; it may be called more than once.
func (n *Node) Close() error { return n.lock.release() }

// Run keeps the node on its network until ctx ends, and returns nil then. It waits for a login without end. Listeners
// and connections of a tailnet end with it. It runs once. The returned error is ErrHangs when there is no other way on.
func (n *Node) Run(ctx context.Context) error {
	if !n.lock.held() {
		return errors.New("running the network: the node was closed: make a new one")
	}
	defer n.Close()
	err := n.network.run(ctx)
	last := *n.view.Load()
	last.status = Status{State: StateStopped}
	n.view.Store(&last)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// publish makes v what everybody reads. Only Run calls it.
func (n *Node) publish(v *view) {
	old := n.view.Swap(v)
	if len(v.addrs) > 0 && v.status.State == StateUp {
		n.once.Do(func() { close(n.ready) })
	}
	if samePeers(old.peers, v.peers) && slices.Equal(old.addrs, v.addrs) && sameStatus(old.status, v.status) {
		return
	}
	select {
	case n.changes <- struct{}{}:
	default:
	}
}

// Ready is closed once the node has its addresses and its ID, and may listen.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Changes holds a token whenever peers, addresses or status have changed since it was last read. One reader.
func (n *Node) Changes() <-chan struct{} { return n.changes }

// ID is stable over restarts and unique: the device's on a tailnet, a random one kept in the state directory on a lan.
// It is "" on a tailnet until Ready.
func (n *Node) ID() string { return n.view.Load().id }

// Addrs returns this node's own addresses, v4 first; on a lan that of the default route comes first of its family.
// None until Ready.
func (n *Node) Addrs() []netip.Addr { return slices.Clone(n.view.Load().addrs) }

// Addr is the first of Addrs, the one to tell others; the zero Addr until Ready.
func (n *Node) Addr() netip.Addr {
	if addrs := n.view.Load().addrs; len(addrs) > 0 {
		return addrs[0]
	}
	return netip.Addr{}
}

// Status says how the node is doing.
func (n *Node) Status() Status {
	s := n.view.Load().status
	s.Warnings = slices.Clone(s.Warnings)
	return s
}

// Peers returns the machines that may be ours, sorted by name, this one left out.
func (n *Node) Peers() []Peer {
	peers := slices.Clone(n.view.Load().peers)
	for i := range peers {
		peers[i].Addrs = slices.Clone(peers[i].Addrs)
	}
	return peers
}

// Admit lets DialContext reach addresses that others have told of: members by gossip. It is for a lan; a tailnet has its
// own list, which no member can add to. The last 1,024 are kept. No admission opens loopback, link-local, multicast or
// unspecified addresses, loopback only on a node that lives there itself.
func (n *Node) Admit(addrs ...netip.Addr) { n.admit.add(addrs) }

// ListenStream answers TCP on port on all of this node's own addresses. The returned error is ErrNotUp before Ready.
func (n *Node) ListenStream(port int) (net.Listener, error) {
	if !n.isReady() {
		return nil, fmt.Errorf("listening on tcp port %d: %w", port, ErrNotUp)
	}
	l, err := n.network.listen(port)
	if err != nil {
		return nil, fmt.Errorf("listening on tcp port %d: %w", port, err)
	}
	return l, nil
}

// ListenPacket receives UDP on port on all of this node's own addresses, and sends from that of the receiver's family.
// Payloads over 1,200 bytes may be lost: tailnets drop fragments of IPv6.
// The returned error is ErrNotUp before Ready.
func (n *Node) ListenPacket(port int) (net.PacketConn, error) {
	if !n.isReady() {
		return nil, fmt.Errorf("listening on udp port %d: %w", port, ErrNotUp)
	}
	c, err := n.network.listenPacket(port)
	if err != nil {
		return nil, fmt.Errorf("listening on udp port %d: %w", port, err)
	}
	return c, nil
}

func (n *Node) isReady() bool {
	select {
	case <-n.ready:
		return true
	default:
		return false
	}
}

// DialContext connects to a peer by TCP, within 10 s. addr is ip:port: names are not looked up, since whoever gossips
// one could point it anywhere. The returned error is ErrNotPeer for any other address, ErrNotUp before Ready.
func (n *Node) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return nil, fmt.Errorf("dialling a peer: network %q is not tcp", network)
	}
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("dialling a peer: %w", err)
	}
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	ctx, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	c, err := n.network.dial(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("dialling %s: %w", to, err)
	}
	return c, nil
}

// WhoIs says who sends from remote. The returned error is ErrUnknownCaller when the tailnet knows no such device.
func (n *Node) WhoIs(ctx context.Context, remote netip.AddrPort) (Caller, error) {
	remote = netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())
	if remote.Addr().IsLoopback() {
		return Caller{Local: true}, nil
	}
	c, err := n.network.whoIs(ctx, remote)
	if err != nil {
		return Caller{}, fmt.Errorf("asking who %s is: %w", remote.Addr(), err)
	}
	return c, nil
}
