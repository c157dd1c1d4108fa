package tsnode

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// maxSightings bounds what strangers can make this node remember. A full roster takes no new ones until old ones expire.
const maxSightings = 256

// sighting is a node that announced itself by mDNS.
type sighting struct {
	id         string
	name       string
	apiPort    int
	gossipPort int
	addr       netip.Addr
	lasts      time.Duration // 0 = it says goodbye
}

// roster is who is here: nodes seen, and the owner's seeds. It belongs to Run's goroutine.
type roster struct {
	own   string
	seen  map[string]*seen
	seeds []Peer
}

// seen is a node with all addresses it was seen at.
type seen struct {
	sighting
	addrs map[netip.Addr]time.Time // until when
}

// maxAddrs bounds the addresses of one node seen.
const maxAddrs = 8

func newRoster(own string) *roster { return &roster{own: own, seen: map[string]*seen{}} }

// hear notes one sighting. The last one names ports and name.
func (r *roster) hear(s sighting, now time.Time) {
	if s.id == r.own {
		return
	}
	r.expire(now)
	known := r.seen[s.id]
	if s.lasts <= 0 {
		if known != nil {
			delete(known.addrs, s.addr)
			r.expire(now)
		}
		return
	}
	if known == nil {
		if len(r.seen) >= maxSightings {
			return
		}
		known = &seen{addrs: map[netip.Addr]time.Time{}}
		r.seen[s.id] = known
	}
	known.sighting = s
	if _, again := known.addrs[s.addr]; again || len(known.addrs) < maxAddrs {
		known.addrs[s.addr] = now.Add(s.lasts)
	}
}

// expire forgets what is past its time.
func (r *roster) expire(now time.Time) {
	for id, s := range r.seen {
		for addr, until := range s.addrs {
			if now.After(until) {
				delete(s.addrs, addr)
			}
		}
		if len(s.addrs) == 0 {
			delete(r.seen, id)
		}
	}
}

// peers lists everyone, without this node itself among the seeds: one list of seeds may serve all machines.
func (r *roster) peers(own []netip.Addr, gossip int, now time.Time) []Peer {
	r.expire(now)
	var all []Peer
	for _, s := range r.seen {
		p := Peer{Name: s.name, ID: s.id, APIPort: s.apiPort, GossipPort: s.gossipPort, Online: true}
		for addr := range s.addrs {
			p.Addrs = append(p.Addrs, addr)
		}
		slices.SortFunc(p.Addrs, netip.Addr.Compare) // v4 first
		all = append(all, p)
	}
	for _, p := range r.seeds {
		isOwn := func(a netip.Addr) bool { return slices.Contains(own, a) }
		if p.GossipPort != gossip || !slices.ContainsFunc(p.Addrs, isOwn) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b Peer) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return all
}
