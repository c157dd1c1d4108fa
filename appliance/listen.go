package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"syscall"
	"time"

	"viiwork/appliance/config"
)

// server is one open listener with the HTTP server behind it.
type server struct {
	listener net.Listener
	http     *http.Server
	socket   string // path of a unix socket to remove at the end
}

// listen opens everything the configuration asks for, or nothing: the socket for commands of this machine, api.local,
// and in lan mode api.host.
func (a *Appliance) listen(cfg *config.Config) (servers []*server, err error) {
	defer func() {
		if err != nil {
			closeAll(servers)
			servers = nil
		}
	}()
	socket, err := a.listenSocket(cfg.Node.StateDir)
	if err != nil {
		return nil, err
	}
	servers = append(servers, socket)
	for _, want := range cfg.Addresses() {
		l, err := net.Listen("tcp", want.Addr)
		if err != nil {
			return servers, listenFault(want, err)
		}
		servers = append(servers, a.server(l))
	}
	return servers, nil
}

// listenFault says which key asked for the address and what to do about it.
func listenFault(want config.Address, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("listening on %s: another program has this port: stop it (ss -ltnp shows it) or change %s", want.Addr, want.Keys)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("listening on %s: this machine has no such address: change %s", want.Addr, want.Keys)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("listening on %s: ports below 1024 need more rights: change %s", want.Addr, want.Keys)
	}
	return fmt.Errorf("listening on %s (%s): %w", want.Addr, want.Keys, err)
}

// server puts the node's handler behind l. Bodies and answers have no time limit of their own: a prefill may take
// minutes. Headers must come within 10 s, so that idle strangers do not pile up.
func (a *Appliance) server(l net.Listener) *server {
	return &server{listener: l, http: &http.Server{
		Handler:           a.handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelWarn), // else it writes to the process's own log
	}}
}

func (s *server) serve() error {
	err := s.http.Serve(s.listener)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving on %s: %w", s.listener.Addr(), err)
}

// shut takes no more connections, and ends those that are open after their request. The socket stays: commands may ask
// how the rest is getting on.
func shut(servers []*server) {
	for _, s := range servers {
		if s.socket == "" {
			s.http.SetKeepAlivesEnabled(false)
			s.listener.Close()
		}
	}
}

// closeAll closes listeners first, then lets answers already written leave for a second at most.
func closeAll(servers []*server) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, s := range servers {
		if err := s.http.Shutdown(ctx); err != nil {
			s.http.Close()
		}
		s.listener.Close() // not yet served: Shutdown does not know it
		if s.socket != "" {
			os.Remove(s.socket)
		}
	}
}

// addresses are those that take requests from programs, the socket left out.
func addresses(servers []*server) (addrs []string) {
	for _, s := range servers {
		if s.socket == "" {
			addrs = append(addrs, s.listener.Addr().String())
		}
	}
	return addrs
}

// whoIsPatience is how long the device may take to say who is calling; it looks that up in its own memory.
const whoIsPatience = 2 * time.Second

// serveTailnet answers on the device's own listener until ctx ends. Whoever the tailnet does not know is not answered:
// there is no such device, so the request did not come the way it says.
func (a *Appliance) serveTailnet(ctx context.Context, l net.Listener) error {
	s := a.server(l)
	s.http.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		// Asked before the next connection is taken: it must not take long.
		asking, cancel := context.WithTimeout(ctx, whoIsPatience)
		defer cancel()
		from, err := netip.ParseAddrPort(c.RemoteAddr().String())
		if err == nil {
			_, err = a.mesh.node.WhoIs(asking, from)
		}
		if err != nil {
			a.log.Warn("a connection from no device of the tailnet was closed", "error", err)
			c.Close()
		}
		return ctx
	}
	ended := make(chan error, 1)
	go func() { ended <- s.serve() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		closeAll([]*server{s})
		return <-ended
	}
}
