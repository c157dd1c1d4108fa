package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"viiwork/appliance/config"
	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
)

const joinCodeHelp = `Prints the code that a new machine needs to come into this node's mesh: the network, where to find this node, and the
mesh's secret if it has one. Whoever has the code of a secured mesh can join it: hand it on like a password.

On a lan whose api.host is not set, the running node is asked for its address.

With --secret it is the secret alone, in the form that VIIWORK_MESH_SECRET and the file of VIIWORK_MESH_SECRET_FILE take.

With --rotate the running nodes first replace the secret by a new one, while requests run on. Whoever has the old one
cannot join any more; machines that are away meanwhile need the new one to come back. If it stops half-way, the mesh
works on, and running it again, on any node, finishes it.`

func (c *cli) joinCodeCommand() *cobra.Command {
	var rotate, secret bool
	cmd := &cobra.Command{
		Use:   "join-code",
		Short: "print the code that a new machine needs to come into the mesh",
		Long:  joinCodeHelp,
		Args:  exactly(0, takesNone),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, _, err := c.load()
			if err != nil {
				return err
			}
			show := c.printCode
			if secret {
				show = c.printSecret
			}
			if rotate {
				return c.rotate(cmd.Context(), cfg, show)
			}
			return show(cmd.Context(), cfg)
		},
	}
	cmd.Flags().BoolVar(&rotate, "rotate", false, "replace the mesh's secret first, at all nodes")
	cmd.Flags().BoolVar(&secret, "secret", false, "print the secret alone, as a configuration takes it")
	return cmd
}

// printCode prints the code as the one result.
func (c *cli) printCode(ctx context.Context, cfg *config.Config) error {
	code, err := c.joinCode(ctx, cfg)
	if err != nil {
		return err
	}
	text, err := code.Encode()
	if err != nil {
		return err
	}
	if code.Secret != nil {
		c.note("the code holds the mesh's secret: hand it on like a password")
	}
	if _, err := fmt.Fprintln(c.Out, text); err != nil {
		return fmt.Errorf("writing the code: %w", err)
	}
	return nil
}

// printSecret prints the secret in use as the one result.
func (c *cli) printSecret(_ context.Context, cfg *config.Config) error {
	secret := keptSecret(cfg).Bytes()
	if secret == nil {
		return coded{exitRefused, errors.New("this mesh is open: it has no secret (docs/mesh.md, From an open mesh to a secret)")}
	}
	if _, err := fmt.Fprintln(c.Out, base64.StdEncoding.EncodeToString(secret)); err != nil {
		return fmt.Errorf("writing the secret: %w", err)
	}
	return nil
}

// keptSecret is the mesh's secret as the node of this configuration has it.
func keptSecret(cfg *config.Config) mesh.Secret {
	return mesh.ReadSecret(mesh.SecretConfig{StateDir: cfg.Node.StateDir, Secret: cfg.Mesh.Secret, Prev: cfg.Mesh.SecretPrev})
}

// maxCodeAddresses is enough to meet somebody, and keeps a code short that may have to be typed.
const maxCodeAddresses = 4

// joinCode is what leads to this node: on a tailnet the network itself does, unless the owner named seeds there too.
func (c *cli) joinCode(ctx context.Context, cfg *config.Config) (mesh.JoinCode, error) {
	code := mesh.JoinCode{Network: cfg.Mesh.Network, Secret: keptSecret(cfg).Bytes()}
	if cfg.Mesh.Network == "tailnet" {
		code.ControlURL = cfg.Mesh.Tailnet.ControlURL
	} else {
		own, err := c.ownAddress(ctx, cfg)
		if err != nil {
			return code, err
		}
		code.Addresses = []string{net.JoinHostPort(own, strconv.Itoa(cfg.Mesh.BindPort))}
	}
	for _, seed := range cfg.Mesh.Seeds {
		if len(code.Addresses) < maxCodeAddresses && !slices.Contains(code.Addresses, seed) {
			code.Addresses = append(code.Addresses, seed)
		}
	}
	return code, nil
}

// ownAddress is where other machines of a lan reach this node.
func (c *cli) ownAddress(ctx context.Context, cfg *config.Config) (string, error) {
	host := cfg.API.Host
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		n, err := c.node()
		if err != nil {
			return "", err
		}
		var all status.Cluster
		if err := n.get(ctx, meshPath, &all); err != nil {
			return "", err
		}
		if len(all.Members) > 0 {
			host, _, _ = net.SplitHostPort(all.Members[0].Addr) // the node that answers comes first
		}
		if ip, err := netip.ParseAddr(host); err != nil || ip.IsUnspecified() {
			return "", errors.New("the node has no address on its network yet: try again soon, or set api.host")
		}
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsLoopback() {
		c.note("warning: this node answers at %s, which leads only programs of this machine here: set api.host to an address of the network", host)
	}
	return host, nil
}
