package tsnode

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// The wire form of RFC 6762 and 6763: a node is an instance of the service with one SRV and one TXT record.
const (
	mdnsService = "_viiwork._tcp.local."
	mdnsTypes   = "_services._dns-sd._udp.local." // asked by tools that list every kind of service
	mdnsTTL     = 2 * time.Minute
	// maxRecords bounds what one packet can make this node look at.
	maxRecords = 128
	// cacheFlush marks records that only their owner sends: hearers drop what they knew of that name.
	cacheFlush = dnsmessage.ClassINET | 1<<15
)

// announcement is what this node says of itself on one interface.
type announcement struct {
	id         string
	name       string
	apiPort    int
	gossipPort int
	addrs      []netip.Addr
}

// instance is the service's name for this node. The name is the owner's, and no part of the world's DNS.
func (a announcement) instance() string { return a.name + "." + mdnsService }

// host has the id in it, so that it never collides with the name the machine itself goes by.
func (a announcement) host() string { return "viiwork-" + a.id[:8] + ".local." }

// pack builds the answer that names this node. A TTL of zero is a goodbye.
func (a announcement) pack(ttl time.Duration) ([]byte, error) {
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{Response: true, Authoritative: true})
	b.EnableCompression()
	service, err := dnsmessage.NewName(mdnsService)
	if err != nil {
		return nil, err
	}
	instance, err := dnsmessage.NewName(a.instance())
	if err != nil {
		return nil, err
	}
	host, err := dnsmessage.NewName(a.host())
	if err != nil {
		return nil, err
	}
	head := func(n dnsmessage.Name, class dnsmessage.Class) dnsmessage.ResourceHeader {
		return dnsmessage.ResourceHeader{Name: n, Class: class, TTL: uint32(ttl / time.Second)}
	}
	// The builder remembers its first error and returns it from Finish; each of these reports the same one.
	_ = b.StartAnswers()
	_ = b.PTRResource(head(service, dnsmessage.ClassINET), dnsmessage.PTRResource{PTR: instance})
	_ = b.SRVResource(head(instance, cacheFlush), dnsmessage.SRVResource{Port: uint16(a.apiPort), Target: host})
	txt := []string{"v=1", "id=" + a.id, "gossip=" + strconv.Itoa(a.gossipPort)}
	_ = b.TXTResource(head(instance, cacheFlush), dnsmessage.TXTResource{TXT: txt})
	for _, addr := range a.addrs {
		if addr.Is4() {
			err = b.AResource(head(host, cacheFlush), dnsmessage.AResource{A: addr.As4()})
		} else {
			err = b.AAAAResource(head(host, cacheFlush), dnsmessage.AAAAResource{AAAA: addr.As16()})
		}
		if err != nil {
			return nil, err
		}
	}
	return b.Finish()
}

// packQuery builds the question who is here.
func packQuery() ([]byte, error) {
	service, err := dnsmessage.NewName(mdnsService)
	if err != nil {
		return nil, err
	}
	m := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: service, Type: dnsmessage.TypePTR, Class: dnsmessage.ClassINET}}}
	return m.Pack()
}

// heardPacket is what a packet of a stranger says, as far as it concerns us.
type heardPacket struct {
	asks  []string // names asked for, lower case, at most maxRecords
	nodes []announcement
	ttl   time.Duration
}

// parse reads a packet. A broken one is read up to where it breaks; of what it says nothing is believed but form.
func parse(packet []byte) heardPacket {
	var p dnsmessage.Parser
	header, err := p.Start(packet)
	if err != nil {
		return heardPacket{}
	}
	var h heardPacket
	for range maxRecords {
		q, err := p.Question()
		if err != nil {
			break
		}
		h.asks = append(h.asks, strings.ToLower(q.Name.String()))
	}
	if !header.Response || p.SkipAllQuestions() != nil {
		return h
	}
	r := records{byInstance: map[string]*announcement{}, targets: map[string]string{}, addrs: map[string][]netip.Addr{}}
	next := []func() (dnsmessage.ResourceHeader, error){p.AnswerHeader, p.AuthorityHeader, p.AdditionalHeader}
	skip := []func() error{p.SkipAnswer, p.SkipAuthority, p.SkipAdditional}
	for section := range next {
		for range maxRecords {
			head, err := next[section]()
			if err != nil {
				break
			}
			if !r.take(&p, head) && skip[section]() != nil {
				break
			}
		}
	}
	h.nodes, h.ttl = r.nodes(), r.ttl
	return h
}

// records gathers what one packet says of each instance.
type records struct {
	byInstance map[string]*announcement
	targets    map[string]string       // instance → host name
	addrs      map[string][]netip.Addr // host name → addresses
	ttl        time.Duration
}

// take reads the record under way if it is one of ours, and reports whether it did.
func (r *records) take(p *dnsmessage.Parser, head dnsmessage.ResourceHeader) bool {
	name := head.Name.String()
	if head.Type == dnsmessage.TypeA || head.Type == dnsmessage.TypeAAAA {
		return r.takeAddr(p, head.Type, strings.ToLower(name))
	}
	label, ok := cutSuffixFold(name, "."+mdnsService)
	if !ok || !isName(label) {
		return false
	}
	a := r.byInstance[label]
	if a == nil {
		a = &announcement{name: label}
	}
	switch head.Type {
	case dnsmessage.TypeSRV:
		srv, err := p.SRVResource()
		if err != nil {
			return false
		}
		a.apiPort = int(srv.Port)
		r.targets[label] = strings.ToLower(srv.Target.String())
	case dnsmessage.TypeTXT:
		txt, err := p.TXTResource()
		if err != nil {
			return false
		}
		a.readText(txt.TXT)
	default:
		return false
	}
	r.byInstance[label] = a
	r.ttl = min(time.Duration(head.TTL)*time.Second, time.Hour)
	return true
}

func (r *records) takeAddr(p *dnsmessage.Parser, kind dnsmessage.Type, host string) bool {
	if len(r.addrs[host]) >= maxAddrs {
		return false
	}
	if kind == dnsmessage.TypeA {
		a, err := p.AResource()
		if err != nil {
			return false
		}
		r.addrs[host] = append(r.addrs[host], netip.AddrFrom4(a.A))
		return true
	}
	a, err := p.AAAAResource()
	if err != nil {
		return false
	}
	r.addrs[host] = append(r.addrs[host], netip.AddrFrom16(a.AAAA).Unmap())
	return true
}

func (a *announcement) readText(txt []string) {
	for _, pair := range txt {
		key, value, _ := strings.Cut(pair, "=")
		switch {
		case key == "id" && isID(value):
			a.id = value
		case key == "gossip":
			if port, err := strconv.Atoi(value); err == nil && port > 0 && port < 65536 {
				a.gossipPort = port
			}
		}
	}
}

// nodes are the instances that said all that is needed.
func (r *records) nodes() []announcement {
	var all []announcement
	for label, a := range r.byInstance {
		a.addrs = r.addrs[r.targets[label]]
		if a.id != "" && a.apiPort > 0 && a.gossipPort > 0 {
			all = append(all, *a)
		}
	}
	return all
}

func cutSuffixFold(s, suffix string) (string, bool) {
	cut := len(s) - len(suffix)
	if cut <= 0 || !strings.EqualFold(s[cut:], suffix) {
		return "", false
	}
	return s[:cut], true
}

// isName reports whether s is a node's name as the configuration allows them: it is shown to people and compared.
func isName(s string) bool {
	if s == "" || len(s) > 32 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
