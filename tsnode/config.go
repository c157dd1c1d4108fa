package tsnode

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
)

// The networks a Node can be on.
const (
	Tailnet = "tailnet"
	LAN     = "lan"
)

// Config is what a Node is made of. It is not changed afterwards.
type Config struct {
	Network    string   // Tailnet or LAN
	Name       string   // this node's name in the mesh, announced by mDNS
	StateDir   string   // absolute; its folder "tsnode" is ours
	APIPort    int      // where this node answers requests, announced by mDNS
	GossipPort int      // where it gossips; also assumed of peers that do not say
	Seeds      []string // host or host:gossip-port of peers that would not be found otherwise

	Host string // lan: this node's one address; "" = all of the host's
	MDNS bool   // lan: announce this node and look for others
	Mute bool   // lan: only look for others: this node does not serve yet

	Hostname   string   // tailnet: the device's name; "" = Prefix + Name
	Prefix     string   // tailnet: how names of devices that may be ours begin; "" = "viiwork-"
	AuthKey    string   // tailnet: a key, or file:PATH of one; "" = TS_AUTHKEY, else someone opens the login URL
	ControlURL string   // tailnet: "" = Tailscale's own
	Tags       []string // tailnet: tags to ask for

	Log    *slog.Logger        // nil = silent
	Getenv func(string) string // nil = os.Getenv
}

// check fills in what is empty and names the first thing that cannot be.
func (c *Config) check() error {
	if c.Network != Tailnet && c.Network != LAN {
		return fmt.Errorf("no network is called %q: set mesh.network to tailnet or lan", c.Network)
	}
	if c.Name == "" {
		return errors.New("the node has no name: set node.name")
	}
	if c.StateDir == "" {
		return errors.New("no state directory given: set node.state_dir")
	}
	if c.Prefix == "" {
		c.Prefix = "viiwork-"
	}
	if c.Hostname == "" {
		c.Hostname = c.Prefix + c.Name
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Getenv == nil {
		c.Getenv = os.Getenv
	}
	return nil
}

// authKey finds the key at the moment it is needed, so that a file replaced by its owner is read anew.
func (c *Config) authKey() (string, error) {
	key := c.AuthKey
	if key == "" {
		key = c.Getenv("TS_AUTHKEY")
	}
	path, isFile := strings.CutPrefix(key, "file:")
	if !isFile {
		return strings.TrimSpace(key), nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the tailnet's auth key: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
