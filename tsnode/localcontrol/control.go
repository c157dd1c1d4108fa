package localcontrol

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"tailscale.com/tailcfg"
	"tailscale.com/tstest/integration/testcontrol"
)

// domain is what device names end in.
const domain = "demo.ts.net"

// Config says how the tailnet treats devices.
type Config struct {
	RequireLogin bool     // every device waits until CompleteLogin is called with its login address
	AuthKey      string   // the one key devices must join with; "" = none is needed
	Tags         []string // tags that devices may ask for; none = tags are ignored
	Log          *slog.Logger
}

// Control is a running tailnet.
type Control struct {
	url     string
	control *testcontrol.Server
	server  *http.Server
	conns   *conns
	relay   *relay
	stun    *stunServer
	serving sync.WaitGroup
	once    sync.Once
}

// Start opens everything and returns when devices can join. The caller must Close it.
func Start(cfg Config) (c *Control, err error) {
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	logf := func(format string, args ...any) { log.Debug(strings.TrimSpace(fmt.Sprintf(format, args...))) }
	c = &Control{}
	defer func() {
		if err != nil {
			c.Close()
			c = nil
		}
	}()
	if c.stun, err = startSTUN(); err != nil {
		return c, fmt.Errorf("starting the local STUN server: %w", err)
	}
	if c.relay, err = startRelay(logf); err != nil {
		return c, fmt.Errorf("starting the local relay: %w", err)
	}
	if c.conns, err = listenLocal(); err != nil {
		return c, fmt.Errorf("starting the local control server: %w", err)
	}
	c.url = "http://" + c.conns.Addr().String()
	c.control = newControl(cfg, c, logf)
	c.server = &http.Server{Handler: c.handler(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	c.serving.Go(func() { c.server.Serve(c.conns) })
	return c, nil
}

// handler passes on what devices ask for. The test server behind it ends the process over any other request, and the
// address is one that a curious owner opens in a browser. Opening a login address logs in.
func (c *Control) handler() http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/key", "/ts2021", "/generate_204"} {
		mux.Handle(path, c.control)
	}
	mux.HandleFunc("GET /auth/", func(w http.ResponseWriter, r *http.Request) {
		if !c.CompleteLogin(r.URL.Path) {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintln(w, "The device is logged in.")
	})
	return mux
}

func newControl(cfg Config, c *Control, logf func(string, ...any)) *testcontrol.Server {
	s := &testcontrol.Server{
		Logf:            logf,
		ExplicitBaseURL: c.url,
		DERPMap:         relayMap(c.relay.port(), c.stun.port()),
		DNSConfig:       &tailcfg.DNSConfig{Proxied: true},
		MagicDNSDomain:  domain,
		RequireAuth:     cfg.RequireLogin,
		RequireAuthKey:  cfg.AuthKey,
		AllOnline:       true,
		// An empty map gives devices no abilities: the default ones offer certificates and funnels that nobody serves.
		DefaultNodeCapabilities: &tailcfg.NodeCapMap{},
	}
	if len(cfg.Tags) > 0 {
		s.TagOwners = map[string][]string{}
		for _, tag := range cfg.Tags {
			s.TagOwners[tag] = nil
		}
	}
	return s
}

// relayMap tells devices of the one relay. Without it they would use Tailscale's own.
func relayMap(relayPort, stunPort int) *tailcfg.DERPMap {
	return &tailcfg.DERPMap{Regions: map[int]*tailcfg.DERPRegion{
		1: {RegionID: 1, RegionCode: "local", Nodes: []*tailcfg.DERPNode{{
			Name:             "1a",
			RegionID:         1,
			HostName:         "127.0.0.1",
			IPv4:             "127.0.0.1",
			IPv6:             "none",
			STUNPort:         stunPort,
			STUNTestIP:       "127.0.0.1",
			DERPPort:         relayPort,
			InsecureForTests: true, // its certificate is made at start and known to nobody
		}}},
	}}
}

// URL is the control server's address, for a device's control_url.
func (c *Control) URL() string { return c.url }

// CompleteLogin logs in the device that shows loginURL, as if its owner had, and reports whether one waited for that.
func (c *Control) CompleteLogin(loginURL string) bool { return c.control.CompleteAuth(loginURL) }

// ExpireDevices tells all devices that their keys have expired, or that they have not.
func (c *Control) ExpireDevices(expired bool) { c.control.SetExpireAllNodes(expired) }

// Devices is how many have joined so far.
func (c *Control) Devices() int { return c.control.NumNodes() }

// Close ends the tailnet. Devices that are still up keep what connections they have.
func (c *Control) Close() {
	c.once.Do(func() {
		if c.server != nil {
			c.server.Close()
		}
		if c.conns != nil {
			c.conns.closeAll()
		}
		if c.relay != nil {
			c.relay.close()
		}
		if c.stun != nil {
			c.stun.close()
		}
		c.serving.Wait()
	})
}
