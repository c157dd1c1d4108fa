package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"viiwork/appliance"
	"viiwork/appliance/config"
	"viiwork/appliance/setup"
	"viiwork/appliance/status"
)

func (c *cli) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "check this machine and its configuration; exit 1 if something would keep the node from serving",
		Args:  exactly(0, takesNone),
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks := c.examine(cmd.Context())
			if asJSON {
				report := struct {
					OK     bool          `json:"ok"`
					Checks []setup.Check `json:"checks"`
				}{setup.Healthy(checks), checks}
				if err := c.printJSON(report); err != nil {
					return err
				}
			} else if err := c.print(drawChecks(checks, c.quiet, c.bold())); err != nil {
				return err
			}
			if !setup.Healthy(checks) {
				return errSaid
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// examine runs the doctor with what is known: a broken or missing configuration is its first finding, not its end.
func (c *cli) examine(ctx context.Context) []setup.Check {
	cfg, path, err := c.load()
	if err == nil {
		err = unfit(ctx, cfg)
	}
	probe := setup.Probe{ConfigPath: path, ConfigErr: err, Built: thisRelease().date()}
	if n, nodeErr := c.node(); nodeErr == nil {
		probe.Node = func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			body, err := n.call(ctx, http.MethodGet, "/healthz", nil)
			if err == nil {
				body.Close()
			}
			return err
		}
		probe.Around = n.around
	}
	return setup.Doctor(ctx, cfg, probe)
}

// unfit is what this machine cannot hold of the configuration.
func unfit(ctx context.Context, cfg *config.Config) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // a lost card can make its tool hang
	defer cancel()
	var machine appliance.Survey
	if faults, _ := machine.Check(ctx, cfg); len(faults) > 0 {
		return faults
	}
	return nil
}

// around is what the running node knows of itself and its mesh. One that moves no caches has no word of them.
func (n *node) around(ctx context.Context) (all setup.Around, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := n.get(ctx, "/v1/status", &all.Node); err != nil {
		return all, err
	}
	if err := n.get(ctx, meshPath, &all.Cluster); err != nil {
		return all, err
	}
	var kv status.KV
	if n.get(ctx, "/api/kv", &kv) == nil {
		all.KV = kv.Models
	}
	return all, nil
}

// drawChecks prints a line a check, and below those that are not well the cause and the way out.
func drawChecks(checks []setup.Check, quiet, bold bool) *bytes.Buffer {
	width := 0
	for _, check := range checks {
		width = max(width, utf8.RuneCountInString(check.ID))
	}
	out := new(bytes.Buffer)
	for _, check := range checks {
		unwell := check.State == setup.Warn || check.State == setup.Fail
		if quiet && !unwell {
			continue
		}
		word := fmt.Sprintf("%-4s", check.State)
		if unwell {
			word = emphasis(word, bold)
		}
		fmt.Fprintf(out, "%s  %-*s  %s\n", word, width, printable(check.ID), printable(check.Text))
		if !unwell {
			continue
		}
		for _, line := range [][2]string{{"cause: ", check.Cause}, {"fix:   ", check.Fix}} {
			if line[1] != "" {
				fmt.Fprintf(out, "      %s%s\n", line[0], indent(line[1], 13))
			}
		}
	}
	return out
}
