package serf

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/memberlist"
	hserf "github.com/hashicorp/serf/serf"
)

// packetSize is the most that is put into one packet, in bytes: a tailnet's packets hold 1280, headers included, and
// a larger one would travel as two, either of which may be lost.
const packetSize = 1200

// How the dead are noticed. In each interval every node probes one other; who does not answer is suspected, and failed
// once suspicionMult × log10(members), at least 1, intervals passed without an objection. In meshes of more than two
// the wait is suspicionMax times that until a second node suspects it too.
//
// Measured in simulated time, the last survivor to know of a kill: among 3 members 3.0 s in the middle and 4.5 s at
// worst of 100 kills, among 20 4.1 s and 6.8 s of 60, among 64 6.0 s and 7.9 s of 15. With an interval of 1 s the
// worst of 20 members was 10.3 s.
const (
	probeInterval = 750 * time.Millisecond
	probeTimeout  = 500 * time.Millisecond
	suspicionMult = 3
	suspicionMax  = 3
	// A node that misses answers doubts itself and probes more slowly, here up to this many times. The library's own 8
	// would make half a mesh slow to notice that the other half is gone.
	awarenessMax = 3
)

// News goes from member to member by chance: each passes it on retransmitMult times log10(members), rounded up. With 8
// every twelfth pair of healed halves of 3 left somebody out, where one node alone has news for all; with 16 it is one
// in a hundred. What was passed on least goes first, so a higher number delays nothing.
//
// That rest is the library's: its queue loses one of two messages of equal length when the second comes while the first
// alone is being sent. So members compare all they know with one another, by chance too, every compareInterval; above
// 32 members it is done more rarely.
const (
	retransmitMult  = 16
	compareInterval = 10 * time.Second
)

// eventBuffer is how many of the library's events wait for Run's goroutine. The library holds its locks while it hands
// them over, and hands over up to 1024 after it was told to stop, when nobody listens any more.
const eventBuffer = 4096

// recentEvents is how many of the last events are told to a node that joins, and known not to be new.
const recentEvents = 128

// create starts the library on t.
func (c *Cluster) create(t *transport, events chan<- hserf.Event, start time.Time) (*hserf.Serf, error) {
	logger := log.New(&logWriter{c: c}, "", 0)
	conf := hserf.DefaultConfig()
	conf.MemberlistConfig = memberConfig(t, logger)
	conf.NodeName = c.cfg.ID
	conf.Tags = c.cfg.tags(start)
	conf.EventCh = events
	conf.Logger, conf.LogOutput = logger, nil
	conf.ProtocolVersion = 5
	conf.Merge = gate{c}
	conf.BroadcastTimeout = 2 * time.Second
	conf.LeavePropagateDelay = time.Second
	conf.ReconnectInterval = 15 * time.Second
	conf.RejoinAfterLeave = true
	conf.EventBuffer, conf.QueryBuffer = recentEvents, recentEvents
	conf.UserEventSizeLimit = maxEvent
	conf.DisableCoordinates = true
	// The library would let the members vote on who may keep an id, and shut the loser down; with two members both
	// lose. Here the newcomer goes, see rivals.go.
	conf.EnableNameConflictResolution = false

	if len(c.cfg.Key) > 0 {
		r, err := newRing(c.cfg.Key, c.cfg.Prev)
		if err != nil {
			return nil, err
		}
		conf.MemberlistConfig.Keyring = r.keys
		conf.MemberlistConfig.GossipVerifyIncoming = c.cfg.Enforce == EnforceFull
		conf.MemberlistConfig.GossipVerifyOutgoing = c.cfg.Enforce != EnforceNone
		c.mu.Lock()
		c.ring = r
		c.mu.Unlock()
	}
	if c.cfg.StateDir != "" {
		conf.SnapshotPath = rememberedFile(c.cfg.StateDir)
		if err := os.MkdirAll(filepath.Dir(conf.SnapshotPath), 0o700); err != nil {
			return nil, fmt.Errorf("making the folder for known members: %w", err)
		}
		if is, err := os.Stat(conf.SnapshotPath); err == nil && !is.Mode().IsRegular() { // the library would wait for the other end of a pipe
			if err := os.Remove(conf.SnapshotPath); err != nil {
				return nil, fmt.Errorf("removing what stands in place of the list of known members: %w", err)
			}
		}
	}
	return hserf.Create(conf)
}

func memberConfig(t *transport, logger *log.Logger) *memberlist.Config {
	m := memberlist.DefaultLANConfig()
	m.Transport = t
	m.Logger = logger
	m.BindAddr, m.BindPort = t.addr.Addr().String(), int(t.addr.Port())
	m.AdvertiseAddr, m.AdvertisePort = m.BindAddr, m.BindPort
	m.UDPBufferSize = packetSize
	m.ProbeInterval, m.ProbeTimeout = probeInterval, probeTimeout
	m.SuspicionMult, m.SuspicionMaxTimeoutMult = suspicionMult, suspicionMax
	m.AwarenessMaxMultiplier = awarenessMax
	m.RetransmitMult, m.PushPullInterval = retransmitMult, compareInterval
	// A machine that comes back at another address has its id to itself once the old address is known to be dead.
	m.DeadNodeReclaimTime = time.Second
	// Pings are too small to gain by it, and each would be tried.
	m.EnableCompression = false
	return m
}
