package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"viiwork/appliance/route/sim"
)

const simHelp = `Plays a fleet and the coding agents on it, and prints what each way of placing their requests makes of it. The
policies cost and classic are this program's own code; random, least (connections), hash (consistent, with bounded
load) and oracle (knows everything, and has every cache everywhere) are there to compare. The same seed gives the same
figures. docs/routing.md says what they mean.`

func (c *cli) simCommand() *cobra.Command {
	var cfg sim.Config
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "simulate a fleet with this program's own routing code",
		Long:  simHelp,
		Args:  exactly(0, takesNone),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.Validate(); err != nil {
				return usageError("%w", err)
			}
			results, err := sim.Table(cmd.Context(), cfg)
			if err != nil {
				return fmt.Errorf("simulating: %w", err)
			}
			if asJSON {
				return c.printJSON(results)
			}
			return c.print(drawSim(results, c.bold()))
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&asJSON, "json", false, "print JSON; shares are 0 to 1")
	flags.StringVar(&cfg.Fleet, "fleet", "blog", "the `machines`: "+strings.Join(sim.Fleets(), ", "))
	flags.Float64Var(&cfg.Load, "load", 0.9, "how many sessions: at 1 their turns would just fill all slots if nothing had to be computed twice")
	flags.StringVar(&cfg.Headers, "headers", "all", "whether clients name their sessions: all, none")
	flags.StringVar(&cfg.KV, "kv", "off", "whether caches move between machines: off, pull, replicate")
	flags.Uint64Var(&cfg.Seed, "seed", 1, "another one is another day")
	flags.IntVar(&cfg.Sessions, "sessions", 0, "so many sessions, whatever the load")
	flags.BoolVar(&cfg.OneEntry, "one-entry", false, "all requests come in by the first machine")
	flags.BoolVar(&cfg.Forget, "no-affinity", false, "as with routing.affinity: false")
	flags.BoolVar(&cfg.Flat, "no-performance", false, "as with routing.performance: false")
	offer(cmd, "fleet", sim.Fleets()...)
	offer(cmd, "headers", "all", "none")
	offer(cmd, "kv", "off", "pull", "replicate")
	return cmd
}

// drawSim is the table for people: shares in percent, times in seconds.
func drawSim(results []sim.Result, bold bool) *bytes.Buffer {
	t := table{bold: bold, head: []string{"POLICY", "TURNS/H", "MEAN", "P50", "P95", "P99", "HIT", "MOVED", "WARM", "PARTLY", "COLD", "REFUSED", "WASTED"}}
	percent := func(v float64) string { return fmt.Sprintf("%.1f%%", 100*v) }
	seconds := func(v float64) string { return fmt.Sprintf("%.1fs", v) }
	for _, r := range results {
		t.add(string(r.Policy), fmt.Sprintf("%.0f", r.TurnsPerHour), seconds(r.TTFTMean), seconds(r.TTFTP50), seconds(r.TTFTP95), seconds(r.TTFTP99),
			percent(r.Hit80), percent(r.MovedNode), percent(r.Warm), percent(r.Partly), percent(r.Cold), percent(r.Rejected), fmt.Sprintf("%.0f", r.Wasted))
	}
	out := new(bytes.Buffer)
	t.draw(out)
	return out
}
