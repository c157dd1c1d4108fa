package tsnode

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// mdns announces this node on the host's networks and reports who else does. Only addresses within the networks of the
// interface they were heard on are believed: otherwise one packet could point every node at any address of the world.
type mdns struct {
	cfg   Config
	id    string
	host  netip.Addr // zero = all
	heard chan<- sighting
	works chan<- error // holds one: what keeps mDNS from working, nil once it does

	sockets []*mdnsSocket
	places  map[int]place     // by interface index, as read last
	last    map[int]time.Time // when this node was last announced there
	due     map[int]time.Time // when to answer there
}

const (
	mdnsRound = time.Minute
	// mdnsGap is the least time between two answers on one network (RFC 6762, 6): a flood of questions is not answered
	// with a flood.
	mdnsGap = time.Second
)

func newMDNS(l *lan, heard chan<- sighting, works chan<- error) *mdns {
	return &mdns{cfg: l.cfg, id: l.id, host: l.host, heard: heard, works: works,
		places: map[int]place{}, last: map[int]time.Time{}, due: map[int]time.Time{}}
}

// run announces and listens until ctx ends, and says goodbye then. Where no socket can be had it tries again each round.
func (m *mdns) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := m.open()
		offer(m.works, err)
		if err != nil {
			sleep(ctx, mdnsRound)
			continue
		}
		m.converse(ctx)
	}
}

func (m *mdns) open() error {
	m.sockets = nil
	four, err4 := openMDNS4()
	if err4 == nil {
		m.sockets = append(m.sockets, four)
	}
	six, err6 := openMDNS6()
	if err6 == nil {
		m.sockets = append(m.sockets, six)
	}
	if len(m.sockets) == 0 {
		return errors.Join(err4, err6)
	}
	return nil
}

// converse asks and announces at 0, 1 and 3 s, then every minute, and answers questions in between.
func (m *mdns) converse(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	packets := make(chan heardFrom, 16)
	var readers sync.WaitGroup
	for _, s := range m.sockets {
		readers.Go(func() {
			defer cancel() // a socket that broke ends the conversation; run opens new ones
			readMDNS(ctx, s, packets)
		})
	}
	defer readers.Wait()
	defer m.closeSockets()
	defer m.goodbye()
	defer cancel()

	round := time.NewTimer(0)
	defer round.Stop()
	waits := []time.Duration{time.Second, 2 * time.Second}
	answer := time.NewTimer(time.Hour)
	defer answer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-round.C:
			m.lookAround()
			m.askAndAnnounce()
			wait := mdnsRound
			if len(waits) > 0 {
				wait, waits = waits[0], waits[1:]
			}
			round.Reset(wait)
		case h := <-packets:
			m.hear(ctx, h)
			answer.Reset(m.untilDue(time.Now()))
		case <-answer.C:
			m.answerDue(time.Now())
			answer.Reset(m.untilDue(time.Now()))
		}
	}
}

func readMDNS(ctx context.Context, s *mdnsSocket, packets chan<- heardFrom) {
	buf := make([]byte, 9000) // the most RFC 6762 allows
	for {
		h, err := s.receive(buf)
		if err != nil {
			return
		}
		select {
		case packets <- h:
		case <-ctx.Done():
			return
		}
	}
}

func (m *mdns) closeSockets() {
	for _, s := range m.sockets {
		s.close()
	}
}

// lookAround reads the interfaces that multicast, and joins those that are new.
func (m *mdns) lookAround() {
	m.places = map[int]place{}
	for _, p := range places(m.host) {
		if p.iface.Flags&net.FlagMulticast == 0 {
			continue
		}
		m.places[p.iface.Index] = p
		for _, s := range m.sockets {
			s.join(p.iface)
		}
	}
}

func (m *mdns) askAndAnnounce() {
	query, err := packQuery()
	if err != nil {
		return
	}
	for index := range m.places {
		for _, s := range m.sockets {
			s.send(query, index)
		}
		m.announce(index, mdnsTTL)
	}
}

// announce tells one network of this node, with the addresses it has there.
func (m *mdns) announce(index int, ttl time.Duration) {
	if m.cfg.Mute {
		delete(m.due, index)
		return
	}
	a := announcement{id: m.id, name: m.cfg.Name, apiPort: m.cfg.APIPort, gossipPort: m.cfg.GossipPort}
	for _, n := range m.places[index].nets {
		a.addrs = append(a.addrs, n.Addr())
	}
	packet, err := a.pack(ttl)
	if err != nil {
		m.cfg.Log.Warn("announcing this node by mDNS", "error", err)
		return
	}
	for _, s := range m.sockets {
		s.send(packet, index)
	}
	m.last[index] = time.Now()
	delete(m.due, index)
}

func (m *mdns) goodbye() {
	for index := range m.places {
		m.announce(index, 0)
	}
}

// hear takes in one packet: a question for this node is answered a little later, others of its kind are reported.
func (m *mdns) hear(ctx context.Context, h heardFrom) {
	p, known := m.places[h.iface]
	if !known {
		return
	}
	said := parse(h.packet)
	own := announcement{id: m.id, name: m.cfg.Name}
	if slices.ContainsFunc(said.asks, func(name string) bool {
		return name == mdnsService || name == mdnsTypes || name == strings.ToLower(own.instance()) || name == own.host()
	}) {
		m.willAnswer(h.iface, time.Now())
	}
	for _, a := range said.nodes {
		if a.id == m.id {
			continue
		}
		for _, addr := range believed(p, a.addrs, h.from) {
			s := sighting{id: a.id, name: a.name, apiPort: a.apiPort, gossipPort: a.gossipPort, addr: addr, lasts: said.ttl}
			select {
			case m.heard <- s:
			case <-ctx.Done():
				return
			}
		}
	}
}

// believed are the addresses said that lie on this link, else the sender's own if that does. A machine may announce a
// node that answers on one of its addresses only, so what was said goes first.
func believed(p place, said []netip.Addr, from netip.Addr) []netip.Addr {
	on := slices.DeleteFunc(slices.Clone(said), func(a netip.Addr) bool { return !onLink(p, a) })
	if len(on) == 0 && onLink(p, from) {
		on = []netip.Addr{from}
	}
	return on
}

// onLink reports whether addr lies in one of the place's networks, and so is the address of a machine there.
func onLink(p place, addr netip.Addr) bool {
	return slices.ContainsFunc(p.nets, func(n netip.Prefix) bool { return n.Masked().Contains(addr) })
}

// willAnswer plans an answer 20 to 120 ms away, so that not all nodes answer at once.
func (m *mdns) willAnswer(index int, now time.Time) {
	if _, planned := m.due[index]; planned {
		return
	}
	at := now.Add(20*time.Millisecond + rand.N(100*time.Millisecond))
	if earliest := m.last[index].Add(mdnsGap); at.Before(earliest) {
		at = earliest
	}
	m.due[index] = at
}

func (m *mdns) untilDue(now time.Time) time.Duration {
	wait := time.Hour
	for _, at := range m.due {
		wait = min(wait, max(0, at.Sub(now)))
	}
	return wait
}

func (m *mdns) answerDue(now time.Time) {
	for index, at := range m.due {
		if !at.After(now) {
			m.announce(index, mdnsTTL)
		}
	}
}
