package appliance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"viiwork/appliance/config"
	"viiwork/tsnode"
)

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
		l, given := a.options.Given[want.Addr]
		if !given {
			if l, err = net.Listen("tcp", want.Addr); err != nil {
				return servers, listenFault(want, err)
			}
		}
		s := a.server(l)
		s.kept = given || a.options.Keep != nil && a.options.Keep(l)
		servers = append(servers, s)
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

// shut takes no more connections, and ends those that are open with their next answer. The socket stays: commands may ask
// how the rest is getting on.
func shut(servers []*server) {
	for _, s := range servers {
		if s.socket == "" {
			s.leaving.Store(true)
			s.listener.Close()
		}
	}
}

// lastAnswers ends connections with their next answer while new ones are still taken. One whose answer began before that
// could bring one more request when nobody else is served any more, and the next run would wait for that as well.
func lastAnswers(servers []*server) {
	for _, s := range servers {
		if s.kept {
			s.leaving.Store(true)
		}
	}
}

// stillUsed tells that a connection that was taken may yet bring a request. It must not be closed before: its client has
// no way to tell whether the question was read.
func stillUsed(servers []*server) bool {
	return slices.ContainsFunc(servers, func(s *server) bool { return s.socket == "" && !s.settled() })
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
	s.context = func(ctx context.Context, c net.Conn) context.Context {
		// Asked before the next connection is taken: it must not take long.
		asking, cancel := context.WithTimeout(ctx, whoIsPatience)
		defer cancel()
		from, err := netip.ParseAddrPort(c.RemoteAddr().String())
		var who tsnode.Caller
		if err == nil {
			who, err = a.mesh.node.WhoIs(asking, from)
		}
		if err != nil {
			a.log.Warn("a connection from no device of the tailnet was closed", "error", err)
			c.Close()
		}
		return context.WithValue(ctx, callerKey{}, deviceOf(who))
	}
	ended := make(chan error, 1)
	go func() { ended <- s.serve() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		all := []*server{s}
		shut(all)
		settling, done := context.WithTimeout(context.Background(), firstGrace)
		defer done()
		a.within(settling, func() bool { return !stillUsed(all) })
		closeAll(all)
		return <-ended
	}
}
