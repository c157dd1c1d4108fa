package serf

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	hserf "github.com/hashicorp/serf/serf"
)

// maxMembers bounds the table of members, the dead of the last day included. A mesh is planned for 64.
const maxMembers = 1024

// State is what gossip knows of a member. That a member is merely suspected is kept inside: it is alive until a
// second opinion was had.
type State string

const (
	StateAlive  State = "alive"
	StateLeft   State = "left"   // said goodbye
	StateFailed State = "failed" // stopped answering
)

// Member is one machine of the mesh as gossip has it.
type Member struct {
	ID      string
	Name    string
	State   State
	Addr    netip.AddrPort // of its gossip
	API     netip.AddrPort // of its HTTP interface, at the same IP address
	Version string         // of its program
	Wire    int            // version of the wire forms it speaks
	Since   time.Time      // its start, by its own clock
}

// Members returns everyone known, this node included, by ID: the living, and for a day those who left or failed.
// It is empty while Run does not run.
func (c *Cluster) Members() []Member { return slices.Clone(*c.members.Load()) }

// self is this node as the others see it.
func (c *Cluster) self(addr netip.AddrPort, start time.Time) Member {
	return Member{
		ID: c.cfg.ID, Name: c.cfg.Name, State: StateAlive, Addr: addr, API: c.cfg.API,
		Version: c.cfg.Version, Wire: c.cfg.Wire, Since: time.UnixMilli(start.UnixMilli()),
	}
}

// find returns the member with this ID from the last snapshot.
func (c *Cluster) find(id string) (Member, bool) {
	all := *c.members.Load()
	if i, ok := slices.BinarySearchFunc(all, id, func(m Member, id string) int { return cmp.Compare(m.ID, id) }); ok {
		return all[i], true
	}
	return Member{}, false
}

// at returns a member at this IP address, a living one if there is one.
func (c *Cluster) at(addr netip.Addr) (found Member, ok bool) {
	for _, m := range *c.members.Load() {
		if m.Addr.Addr() == addr && (!ok || m.State == StateAlive) {
			found, ok = m, true
		}
	}
	return found, ok
}

// read turns what the library has into a Member, or says what is wrong with it. Everything in raw may be hostile.
func read(raw hserf.Member) (Member, error) {
	ip, ok := netip.AddrFromSlice(raw.Addr)
	if !ok || !usable(netip.AddrPortFrom(ip.Unmap(), raw.Port)) {
		return Member{}, errors.New("its gossip address is none")
	}
	m := Member{ID: raw.Name, Addr: netip.AddrPortFrom(ip.Unmap(), raw.Port), State: stateOf(raw.Status)}
	if !validID(m.ID) {
		return m, errors.New("its id is none")
	}
	if m.Name = raw.Tags[tagName]; !validName(m.Name) {
		return m, errors.New("it has no name: is it a node of viiwork?")
	}
	var err error
	if m.API, err = netip.ParseAddrPort(raw.Tags[tagAPI]); err != nil || m.API.Port() == 0 {
		return m, errors.New("its API address is none")
	}
	// Requests are sent to this address: it must not lead to a machine that never asked for them.
	if m.API.Addr() != m.Addr.Addr() {
		return m, fmt.Errorf("it gossips at %s and claims an API at %s", m.Addr.Addr(), m.API.Addr())
	}
	if m.Version = raw.Tags[tagVersion]; !validVersion(m.Version) {
		return m, errors.New("its version is none")
	}
	if m.Wire, err = strconv.Atoi(raw.Tags[tagWire]); err != nil || m.Wire < 1 {
		return m, errors.New("its wire version is none")
	}
	since, err := strconv.ParseInt(raw.Tags[tagSince], 10, 64)
	if err != nil || since < 0 || since > longestSince.UnixMilli() {
		return m, errors.New("its start time is none")
	}
	m.Since = time.UnixMilli(since)
	return m, nil
}

func stateOf(s hserf.MemberStatus) State {
	switch s {
	case hserf.StatusFailed:
		return StateFailed
	case hserf.StatusLeaving, hserf.StatusLeft:
		return StateLeft
	default:
		return StateAlive
	}
}

// gate is asked by the library about everyone it is about to take in.
type gate struct{ c *Cluster }

// NotifyMerge refuses a member by returning why. The library calls it for one member, or for all that a peer knows of;
// those are asked about one by one right after, so only a peer that knows nobody else is judged as a whole.
//
// It runs under the library's locks and must not call into it.
func (g gate) NotifyMerge(members []*hserf.Member) error {
	if len(members) != 1 {
		return nil
	}
	return g.c.admit(*members[0])
}

func (c *Cluster) admit(raw hserf.Member) error {
	m, err := read(raw)
	if err != nil {
		c.warn(c.refused(m.Addr.Addr(), err))
		return err
	}
	if m.ID == c.cfg.ID {
		if m.Addr == c.own {
			return nil
		}
		select {
		case c.twins <- m:
		default: // one is enough
		}
		return fmt.Errorf("it has our own id at %s", m.Addr)
	}
	if _, known := c.find(m.ID); !known && len(*c.members.Load()) >= maxMembers {
		return fmt.Errorf("there are %d members already", maxMembers)
	}
	return nil
}
