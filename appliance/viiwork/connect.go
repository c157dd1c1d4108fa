package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"viiwork/appliance/config"
	"viiwork/appliance/setup"
	"viiwork/appliance/setup/connect"
)

const connectHelp = `Prints what a client must be told to use this mesh: the address, the model, and how much that holds.

  opencode, codex, claude   the client's own file; --write puts it there, after showing what changes in it
  openai                    variables for a shell, which most other programs read as well

The address is the one for programs of this machine; for a client on another one give --url http://viiwork-NAME:8086, or this
machine's own address on a lan.`

type connectOptions struct {
	model, url    string
	write, asJSON bool
}

func (c *cli) connectCommand() *cobra.Command {
	var o connectOptions
	cmd := &cobra.Command{
		Use:       "connect " + strings.Join(connect.Clients(), "|"),
		Short:     "print the settings that a client needs for this mesh, or write them into its file",
		Long:      connectHelp,
		ValidArgs: connect.Clients(),
		Args:      exactly(1, "it takes the name of a client: "+strings.Join(connect.Clients(), ", ")),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.connect(cmd.Context(), args[0], o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.model, "model", "", "the `model` or alias to ask for; default: the one that holds most")
	flags.StringVar(&o.url, "url", "", "the `address` by which the client reaches a node")
	flags.BoolVar(&o.write, "write", false, "change the client's own file, after showing the difference")
	flags.BoolVar(&o.asJSON, "json", false, "print JSON")
	return cmd
}

func (c *cli) connect(ctx context.Context, client string, o connectOptions) error {
	mesh, err := c.reachable(ctx, o.url)
	if err != nil {
		return err
	}
	settings, err := connect.For(client, mesh, o.model, c.getenv)
	if err != nil {
		return usageError("%w", err)
	}
	switch {
	case o.write:
		return c.writeSettings(ctx, settings)
	case o.asJSON:
		return c.printJSON(settings)
	}
	if settings.File != "" {
		c.note("for %s; --write puts it there:", settings.File)
	}
	if _, err := fmt.Fprint(c.Out, settings.Text); err != nil {
		return fmt.Errorf("writing the settings: %w", err)
	}
	c.notes(settings.Notes)
	return nil
}

func (c *cli) notes(list []string) {
	for _, note := range list {
		c.note("note: %s", note)
	}
}

// reachable is the mesh as a client sees it that runs here.
func (c *cli) reachable(ctx context.Context, url string) (connect.Mesh, error) {
	cfg, _, err := c.load()
	if cfg == nil {
		return connect.Mesh{}, err
	}
	n, err := c.node()
	if err != nil {
		return connect.Mesh{}, err
	}
	var list modelList
	if err := n.get(ctx, "/v1/models", &list); err != nil {
		return connect.Mesh{}, err
	}
	if url == "" {
		url = localURL(cfg)
	} else if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		return connect.Mesh{}, usageError("--url %q is no address: write it as http://HOST:PORT", url)
	}
	mesh := connect.Mesh{URL: strings.TrimSuffix(strings.TrimSuffix(url, "/"), "/v1")}
	for _, m := range list.Data {
		mesh.Models = append(mesh.Models, connect.Model{ID: m.ID, Context: m.Context})
	}
	return mesh, nil
}

// localURL is where programs of this machine reach the node.
func localURL(cfg *config.Config) string {
	if cfg.API.Local != "" {
		return "http://" + cfg.API.Local
	}
	host := cfg.API.Host
	if host == "" || net.ParseIP(host).IsUnspecified() {
		host = "127.0.0.1"
	}
	if cfg.Mesh.Network == "tailnet" {
		host = cfg.Mesh.Tailnet.Hostname // a device of its own: no address of this machine leads to it
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(cfg.API.Port))
}

// writeSettings edits the client's file, if its owner wants what comes of it.
func (c *cli) writeSettings(ctx context.Context, s connect.Settings) error {
	if s.File == "" {
		return usageError("%s has no file of its own: put what 'viiwork connect %s' prints into your shell's profile", s.Client, s.Client)
	}
	path := s.File
	if to, err := filepath.EvalSymlinks(path); err == nil { // the file itself, where its owner keeps it elsewhere
		path = to
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("finding %s: %w", s.File, err)
	}
	old, err := setup.Read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the client's file: %w", err)
	}
	text, err := s.Edit(old)
	if err != nil {
		return err
	}
	file := setup.File{Path: path, Mode: 0o600, Content: text}
	if err := c.apply(ctx, setup.Plan{Files: []setup.File{file.As(path)}}); err != nil {
		return err
	}
	c.note("%s asks this mesh for %s now", s.Client, s.Model)
	c.notes(s.Notes)
	return nil
}

// apply writes files after showing what would be lost, and asking.
func (c *cli) apply(ctx context.Context, plan setup.Plan) error {
	var asking error
	err := setup.Apply(ctx, plan, func(diff string) bool {
		fmt.Fprint(c.Err, printableLines(diff))
		var yes bool
		yes, asking = c.ask(ctx, "write this?", "give --yes")
		return yes
	})
	switch {
	case asking != nil:
		return asking
	case errors.Is(err, setup.ErrRefused):
		return errUnwanted
	}
	return err
}

// printableLines keeps the lines of a text and replaces what would drive the terminal.
func printableLines(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(printable(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return out.String()
}
