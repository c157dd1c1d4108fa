package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"viiwork/appliance"
)

func (c *cli) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "check the configuration, show where each setting comes from, or rewrite one of viiwork 1",
		Args:  cobra.ArbitraryArgs,
		RunE:  needVerb,
	}
	cmd.AddCommand(c.configValidateCommand(), c.configShowCommand(), c.configMigrateCommand())
	return cmd
}

func (c *cli) configValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate [FILE]",
		Short: "name every fault of a configuration file at its line and column; starts nothing, opens no port",
		Args:  atMost(1, "it takes one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				c.configPath = args[0]
			}
			cfg, path, err := c.load()
			if err != nil {
				return err
			}
			var machine appliance.Survey
			unfit, warnings := machine.Check(cmd.Context(), cfg)
			if faults := append(machine.Files(), unfit...); len(faults) > 0 {
				return faults
			}
			for _, warning := range append(cfg.Warnings(), warnings...) {
				c.note("warning: %s", warning)
			}
			if c.quiet {
				return nil
			}
			fmt.Fprintf(c.Out, "%s is valid: %s\n", path, count(len(cfg.Models), "model"))
			for _, note := range machine.Notes() {
				fmt.Fprintf(c.Out, "  %s\n", printable(note))
			}
			return nil
		},
	}
}

func (c *cli) configShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "print every setting with its origin: default, plan (worked out for this machine), file or environment; secrets are masked",
		Args:  exactly(0, takesNone),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, _, err := c.load()
			if err != nil {
				return err
			}
			var machine appliance.Survey
			ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Second) // a lost card can make its tool hang
			defer cancel()
			machine.Check(ctx, cfg) // for what it decides; 'config validate' says what is wrong
			settings := cfg.Show()
			if asJSON {
				return c.printJSON(settings)
			}
			t := table{bold: c.bold(), head: []string{"KEY", "VALUE", "ORIGIN"}}
			for _, s := range settings {
				t.add(s.Key, orDash(s.Value), s.Origin)
			}
			out := new(bytes.Buffer)
			t.draw(out)
			return c.print(out)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
