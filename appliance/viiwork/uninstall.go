package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"viiwork/appliance"
	"viiwork/appliance/config"
	"viiwork/appliance/setup"
)

const uninstallHelp = `Removes what viiwork made on this machine: the service and its files, containers with this node's label, engine
processes it has a record of, the device on its tailnet, the state directory with keys, aliases and caches.

Models and the configuration stay, and whatever viiwork did not make; --purge removes the configuration too. Everything is
shown first. A step that fails is named, and the others are done.`

func (c *cli) uninstallCommand() *cobra.Command {
	var purge, dryRun bool
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "remove what viiwork made on this machine; models and configuration stay",
		Long:  uninstallHelp,
		Args:  exactly(0, takesNone),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.uninstall(cmd.Context(), purge, dryRun)
		},
	}
	cmd.Flags().BoolVar(&purge, "purge", false, "remove the configuration as well")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would go and what would stay, and change nothing")
	return cmd
}

func (c *cli) uninstall(ctx context.Context, purge, dryRun bool) error {
	cfg, path, err := c.leaving()
	if err != nil {
		return err
	}
	machine, err := setup.ThisMachine("", thisRelease().Version)
	if err != nil {
		return err
	}
	n := nodeAt(appliance.SocketPath(cfg.Node.StateDir), "")
	leave := setup.Uninstall{
		Machine: machine, ConfigPath: path, Config: cfg, Purge: purge, Run: setup.Command,
		Running: func(ctx context.Context) bool { return answers(ctx, n) },
	}.Survey(ctx)
	if err := c.print(drawLeave(leave, c.bold())); err != nil || dryRun {
		return err
	}
	yes, err := c.ask(ctx, "remove these?", "give --yes, or --dry-run to look only")
	if err != nil {
		return err
	}
	if !yes {
		return errUnwanted
	}
	err = leave.Remove(ctx, func(what string, err error) {
		if err != nil {
			fmt.Fprintf(c.Err, "viiwork: uninstall: %s: %v\n", printable(what), err)
		} else {
			c.note("removed %s", printable(what))
		}
	})
	if err == nil && len(leave.Faults) > 0 {
		return errors.New("some things could not be looked at (above): mend that and run this again")
	}
	return err
}

// leaving is the configuration to go by. A broken or missing secret does not keep a node on its machine.
func (c *cli) leaving() (*config.Config, string, error) {
	cfg, path, err := c.load()
	if cfg == nil {
		return nil, "", err
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, "", fmt.Errorf("finding %s: %w", path, err)
	}
	return cfg, full, nil
}

func answers(ctx context.Context, n *node) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	body, err := n.call(ctx, http.MethodGet, "/healthz", nil)
	if err == nil {
		body.Close()
	}
	var running coded
	return err == nil || !errors.As(err, &running) // anything but "no node answers"
}

func drawLeave(l setup.Leave, bold bool) *bytes.Buffer {
	out := new(bytes.Buffer)
	part := func(head string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintln(out, emphasis(head, bold))
		for _, line := range lines {
			fmt.Fprintf(out, "  %s\n", printable(line))
		}
	}
	var goes []string
	for _, r := range l.Goes {
		goes = append(goes, r.What)
	}
	part("goes", goes)
	part("stays", l.Stays)
	part("could not be looked at", l.Faults)
	return out
}
