package appliance

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"viiwork/serf"
	"viiwork/tsnode"
)

// lookAgain is how often the network is asked for machines that gossip does not know: both halves of a split find each
// other again by it.
const lookAgain = time.Minute

// discover joins every machine of the network that may be ours and is no living member.
func (m *membership) discover(ctx context.Context, f *fellows) error {
	select {
	case <-f.cluster.Ready():
	case <-ctx.Done():
		return nil
	}
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	soon := time.NewTimer(0)
	defer soon.Stop()
	events, cancel := f.cluster.Subscribe()
	defer cancel()
	pause := time.Second
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-events:
			switch {
			case !ok:
				events = nil
			case e.Kind == serf.KindFailed: // what is lost may be the other half of the mesh
				pause = time.Second
				soon.Reset(pause)
			}
			continue
		case <-again.C:
		case <-soon.C:
		case <-m.node.Changes():
		}
		m.meetPeers(ctx, f, missing(m.node.Peers(), f.cluster.Members()))
		// Who starts at one time with others may have asked them before they could answer, and a seed may come up after
		// us: look again soon, and less and less often in company.
		members := f.cluster.Members()
		if len(alive(f.cluster)) > 1 && len(missing(m.node.Peers(), members)) == 0 {
			pause = time.Second
			continue
		}
		soon.Reset(pause)
		pause = nextPause(pause, members)
	}
}

// nextPause is how long to wait after a pause in which nobody was met. Who is alone, or has lost somebody, may be one half
// of a mesh that was cut, and looks often.
func nextPause(pause time.Duration, members []serf.Member) time.Duration {
	living, lost := 0, false
	for _, s := range members {
		switch s.State {
		case serf.StateAlive:
			living++
		case serf.StateFailed:
			lost = true
		}
	}
	if living < 2 || lost {
		return min(pause*2, lonelyPause)
	}
	return min(pause*2, lookAgain)
}

const (
	// lonelyPause is how long a node that knows nobody, or has lost somebody, waits at most before it looks again.
	lonelyPause = 5 * time.Second
	// probePatience is for one try to reach a peer: the first handshake with a new device may be lost, and is repeated
	// after 5 s only.
	probePatience = 7 * time.Second
)

// meetPeers asks all peers at one time to gossip. Gossip itself asks one after the other, and each that does not answer would
// keep the next waiting for 10 s; so only addresses that take a connection are given to it.
func (m *membership) meetPeers(ctx context.Context, f *fellows, peers []tsnode.Peer) {
	c := f.cluster
	var asked sync.WaitGroup
	var other atomic.Bool // one has another secret than this node uses
	for _, p := range peers {
		asked.Go(func() {
			at, answers := m.answering(ctx, p)
			if !answers || len(missing([]tsnode.Peer{p}, c.Members())) == 0 {
				return // or another has brought it meanwhile
			}
			_, err := c.Join(ctx, []netip.AddrPort{at})
			if errors.Is(err, serf.ErrOtherSecret) {
				other.Store(true)
			}
			if err != nil && ctx.Err() == nil {
				m.log.Debug("a peer could not be met", "peer", p.Name, "error", err)
			}
		})
	}
	asked.Wait()
	if other.Load() {
		f.rotation.Refused()
	}
}

// answering gives the first of a peer's addresses that takes a connection for gossip.
func (m *membership) answering(ctx context.Context, p tsnode.Peer) (at netip.AddrPort, answers bool) {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	first := make(chan netip.AddrPort, len(p.Addrs))
	var asked sync.WaitGroup
	for _, ip := range p.Addrs {
		asked.Go(func() {
			at := netip.AddrPortFrom(ip, uint16(p.GossipPort))
			if conn, err := m.node.DialContext(ctx, "tcp", at.String()); err == nil {
				conn.Close()
				first <- at
				cancel()
			}
		})
	}
	asked.Wait()
	select {
	case at = <-first:
		return at, true
	default:
		return at, false
	}
}

// missing are the peers that gossip does not hold for alive and that may answer. Each that does not costs 10 s, in which
// no other is met, and a tailnet keeps the devices that were given up long ago: who is off by its account is asked only
// by a node that is alone, since that account may be old.
func missing(peers []tsnode.Peer, members []serf.Member) (out []tsnode.Peer) {
	known := map[netip.AddrPort]bool{}
	for _, s := range members {
		if s.State == serf.StateAlive {
			known[s.Addr] = true
		}
	}
	alone := len(known) < 2
	for _, p := range peers {
		off := p.ID != "" && !p.Online // of a seed without an id nothing is known
		met := slices.ContainsFunc(p.Addrs, func(ip netip.Addr) bool { return known[netip.AddrPortFrom(ip, uint16(p.GossipPort))] })
		if !met && (alone || !off) {
			out = append(out, p)
		}
	}
	return out
}
