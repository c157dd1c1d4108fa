package transfer

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// lookAgain is how often addresses are looked at: an interface may come late, or go.
	lookAgain = 30 * time.Second
	// handshakeFor is how long a connection may take until it has asked something.
	handshakeFor = 5 * time.Second
	// maxConns bounds the connections of the direct path, maxFrom those from one address.
	maxConns, maxFrom = 64, 8
)

// entrance is an address where the direct path begins.
type entrance struct {
	at netip.AddrPort // as it was wanted
	net.Listener
}

// Run keeps the direct path open until ctx ends, on the addresses this machine has of those that it is to offer. At the end it
// closes the Client, too.
func (s *Server) Run(ctx context.Context) error {
	defer s.client.Close()
	if len(s.client.cfg.Direct) == 0 {
		<-ctx.Done()
		return nil
	}
	var answers sync.RWMutex // held for reading by each answer: whoever waits for Run may then close what they read from
	web := &http.Server{
		Handler: during(&answers, s.serveDirect), ReadHeaderTimeout: handshakeFor, IdleTimeout: 2 * laneIdle, MaxHeaderBytes: 8 << 10,
		TLSConfig: s.client.id.answers(&s.guests), ErrorLog: log.New(io.Discard, "", 0), // strangers must not fill the log
	}
	d := &door{from: map[netip.Addr]int{}}
	var wg sync.WaitGroup
	said := map[netip.AddrPort]bool{} // what cannot be listened on is said once
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		s.keepOpen(said, func(l *entrance) {
			wg.Go(func() { _ = web.Serve(tls.NewListener(&guarded{l, d}, web.TLSConfig)) })
		})
		select {
		case <-ctx.Done():
			s.shut(nil)
			_ = web.Close()
			wg.Wait()
			answers.Lock() // for good: none begins any more
			return nil
		case <-tick.C:
		}
	}
}

// during answers as long as the lock can be had. Closing an http.Server closes its connections and does not wait for handlers.
func during(open *sync.RWMutex, answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if open.TryRLock() {
			defer open.RUnlock()
			answer(w, r)
		}
	}
}

// keepOpen opens what is wanted and not open, and closes what is open and no longer wanted.
func (s *Server) keepOpen(said map[netip.AddrPort]bool, serve func(*entrance)) {
	var want []netip.AddrPort
	if s.client.trusts() {
		want = wanted(s.client.cfg.Direct, uint16(s.client.cfg.Port))
	}
	s.shut(want)
	for _, at := range want {
		if s.isOpen(at) {
			continue
		}
		l, err := net.Listen("tcp", at.String())
		if err != nil {
			if !said[at] {
				s.client.log.Warn("caches do not travel directly by this address: see kv_share.direct, and that no other program has the port", "address", at, "error", err)
			}
			said[at] = true
			continue
		}
		delete(said, at)
		e := &entrance{at, l}
		s.mu.Lock()
		s.open = append(s.open, e)
		s.mu.Unlock()
		serve(e)
	}
}

func (s *Server) isOpen(at netip.AddrPort) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.open, func(e *entrance) bool { return e.at == at })
}

// shut closes all entrances but those at the given addresses. Connections made there go on.
func (s *Server) shut(but []netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = slices.DeleteFunc(s.open, func(e *entrance) bool {
		if slices.Contains(but, e.at) {
			return false
		}
		_ = e.Close()
		return true
	})
}

// addrs is where the direct path begins now.
func (s *Server) addrs() []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []netip.AddrPort
	for _, e := range s.open {
		all = append(all, netip.MustParseAddrPort(e.Addr().String()))
	}
	return all[:min(len(all), maxAddrs)]
}

// inner are interfaces that lead into this machine only, or over another network's tunnel.
var inner = []string{"docker", "br-", "veth", "virbr", "cni", "flannel", "cali", "podman", "lxc", "tailscale", "utun"}

// wanted is the addresses that the configuration names. What cannot be parsed was refused when it was read.
func wanted(direct []string, port uint16) []netip.AddrPort {
	var all []netip.AddrPort
	for _, text := range direct {
		if text == "auto" {
			for _, ip := range private() {
				all = append(all, netip.AddrPortFrom(ip, port))
			}
		} else if ip, err := netip.ParseAddr(text); err == nil {
			all = append(all, netip.AddrPortFrom(ip, port))
		}
	}
	return all[:min(len(all), maxAddrs)]
}

// private is this machine's private addresses, but for those that only it knows.
func private() []netip.Addr {
	ifaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var all []netip.Addr
	for _, iface := range ifaces {
		if iface.Flags&net.FlagUp == 0 || slices.ContainsFunc(inner, func(p string) bool { return strings.HasPrefix(iface.Name, p) }) {
			continue
		}
		addrs, _ := iface.Addrs() // an interface that is going has none
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.IsPrivate() {
				ip, _ := netip.AddrFromSlice(n.IP)
				all = append(all, ip.Unmap())
			}
		}
	}
	return all
}

// serveDirect answers who has come by the direct path: for chunks, and nothing else.
func (s *Server) serveDirect(w http.ResponseWriter, r *http.Request) {
	who, ok := s.guests.named(print(sha256.Sum256(r.TLS.PeerCertificates[0].Raw)).name())
	if !ok {
		http.Error(w, "this node is not expected any more: ask over the mesh", http.StatusForbidden)
		return
	}
	if !isPost(w, r) {
		return
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(handshakeFor))
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(maxAsk)+1))
	_ = rc.SetReadDeadline(time.Time{}) // the connection may serve another request
	asked, ok := readAsk(body)
	if err != nil || !ok || r.URL.Path != ChunksPath {
		http.Error(w, "that is no question for chunks", http.StatusBadRequest)
		return
	}
	s.chunks(w, r, who.id, asked)
}

// door counts connections, of whom nobody knows yet who they are.
type door struct {
	mu   sync.Mutex // guards what follows
	all  int
	from map[netip.Addr]int
}

// guarded is a listener behind a door.
type guarded struct {
	net.Listener
	door *door
}

func (g *guarded) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		at, err := netip.ParseAddrPort(c.RemoteAddr().String())
		if err == nil && g.door.enter(at.Addr()) {
			return &visit{Conn: c, leave: sync.OnceFunc(func() { g.door.leave(at.Addr()) })}, nil
		}
		_ = c.Close()
	}
}

func (d *door) enter(ip netip.Addr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all >= maxConns || d.from[ip] >= maxFrom {
		return false
	}
	d.all++
	d.from[ip]++
	return true
}

func (d *door) leave(ip netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all--
	if d.from[ip]--; d.from[ip] == 0 {
		delete(d.from, ip)
	}
}

// visit is a connection that the door has counted.
type visit struct {
	net.Conn
	leave func()
}

func (v *visit) Close() error {
	v.leave()
	return v.Conn.Close()
}
