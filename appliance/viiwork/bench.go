package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"viiwork/appliance/bench"
	"viiwork/appliance/status"
)

func (c *cli) benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "measure a mesh that runs",
		Args:  cobra.ArbitraryArgs,
		RunE:  needVerb,
	}
	cmd.AddCommand(c.benchSwarmCommand(), c.benchKVCommand())
	return cmd
}

const swarmHelp = `Coding agents, the same that 'viiwork sim' plays, ask this mesh over HTTP: each has one request at a time, thinks, and comes
back with a longer prompt. What a turn found in a cache is the engines' own count. Without --entry the agents come in by
all members of the running node's mesh.

It costs what such agents cost: the mesh is busy while it runs. Ctrl-C ends it, frees all slots and prints what there is.
docs/bench.md says what the figures mean.`

// swarm is the verb's flags.
type swarm struct {
	bench.Config
	spread    bool
	asJSON    bool
	csv, html string
}

func (c *cli) benchSwarmCommand() *cobra.Command {
	var s swarm
	var entries []string
	cmd := &cobra.Command{
		Use:   "swarm",
		Short: "let coding agents ask this mesh, and measure what they get",
		Long:  swarmHelp,
		Args:  exactly(0, takesNone),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.Turns == 0 && s.Duration == 0 {
				s.Duration = 5 * time.Minute
			}
			for _, text := range entries {
				entry, err := bench.ParseEntry(text)
				if err != nil {
					return usageError("%w", err)
				}
				s.Entries = append(s.Entries, entry)
			}
			if err := s.Validate(); err != nil {
				return usageError("%w", err)
			}
			if s.spread && s.Single {
				return usageError("--spread and --single exclude each other: give one of them")
			}
			return c.benchSwarm(cmd.Context(), s)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&entries, "entry", nil, "`addresses` to ask, with commas between them; without it, all members of the running node's mesh")
	flags.StringVar(&s.Model, "model", "", "the model or alias to ask for; without it, the only one there is")
	flags.IntVar(&s.Sessions, "sessions", 6, "agents at one time")
	flags.IntVar(&s.Turns, "turns", 0, "so many turns of each agent")
	flags.DurationVar(&s.Duration, "duration", 0, "so long at most; without it and --turns, 5m")
	flags.BoolVar(&s.spread, "spread", false, "each turn comes in by one of the entries, at random (as without it)")
	flags.BoolVar(&s.Single, "single", false, "all turns come in by the first entry")
	flags.StringVar(&s.Headers, "headers", "all", "which agents name their sessions: "+strings.Join(bench.Headers(), ", "))
	flags.Float64Var(&s.Scale, "scale", 0, "of all token counts, 1 is real agents'; without it 1, or as much as the model's context has room for")
	flags.Float64Var(&s.Think, "think", 1, "of the times to think; 0 = none")
	flags.Uint64Var(&s.Seed, "seed", 1, "another one is other work")
	flags.StringVar(&s.csv, "csv", "", "write a row for each turn to this `file`")
	flags.StringVar(&s.html, "html", "", "write a report with charts to this `file`")
	flags.BoolVar(&s.asJSON, "json", false, "print JSON; shares are 0 to 1")
	offer(cmd, "headers", bench.Headers()...)
	return cmd
}

func (c *cli) benchSwarm(ctx context.Context, s swarm) error {
	ctx, release := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer release()
	context.AfterFunc(ctx, release) // a second one ends the program
	if len(s.Entries) == 0 {
		var err error
		if s.Entries, err = c.meshEntries(ctx); err != nil {
			return err
		}
		s.SkipDead = true
	}
	files, err := s.open()
	if err != nil {
		return err
	}
	defer files.close()
	report, err := c.play(ctx, s, files)
	if err != nil {
		return err
	}
	written := files.finish(report)
	if err := c.benchSwarmResult(report, s.asJSON); err != nil {
		return err
	}
	return written
}

// play runs the agents, with a bar for who watches.
func (c *cli) play(ctx context.Context, s swarm, files *benchFiles) (bench.Report, error) {
	bar := newBar(c, s.Config)
	s.Begun = func(r bench.Report) {
		c.note("%s of %s, token counts × %v, by %s", count(r.Sessions, "agent"), r.Model, r.Scale, strings.Join(r.Entries, ", "))
		files.begin()
		bar.start()
	}
	s.Ended = func(t bench.Turn) {
		bar.add(t)
		files.add(t)
	}
	report, err := bench.Run(ctx, s.Config)
	bar.stop()
	return report, err
}

// benchSwarmResult prints what came of it. Nothing measured is an error.
func (c *cli) benchSwarmResult(report bench.Report, asJSON bool) error {
	sum := report.Summary()
	if report.Cut {
		c.note("interrupted after %v: these are the figures up to there", report.Took.Round(time.Second))
	}
	if asJSON {
		if err := c.printJSON(sum); err != nil {
			return err
		}
	} else if err := c.print(drawSwarm(sum, c.bold())); err != nil {
		return err
	}
	switch {
	case sum.Turns > 0:
		return nil
	case len(sum.Errors) > 0:
		return fmt.Errorf("no turn was answered: %s: see 'viiwork status --mesh'", sum.Errors[0].Error)
	}
	return errors.New("no turn was answered in that time: give it a longer --duration")
}

// meshEntries are the addresses of all living members, this node by its local one if it has that.
func (c *cli) meshEntries(ctx context.Context) ([]string, error) {
	n, err := c.node()
	if err != nil {
		return nil, err
	}
	var mesh status.Cluster
	if err := n.get(ctx, "/v1/cluster", &mesh); err != nil {
		return nil, err
	}
	local := ""
	if cfg, _, _ := c.load(); cfg != nil {
		local = cfg.API.Local
	}
	var entries []string
	for i, m := range mesh.Members {
		addr := m.Addr
		if i == 0 && local != "" {
			addr = local
		}
		if _, _, err := net.SplitHostPort(addr); err != nil || m.State != "alive" {
			continue
		}
		if entry, err := bench.ParseEntry(addr); err == nil {
			entries = append(entries, entry)
		}
	}
	if len(entries) == 0 {
		return nil, errors.New("the node knows no member that is alive: see 'viiwork status --mesh'")
	}
	return entries, nil
}

// drawSwarm is the tables for people: shares in percent, times in seconds.
func drawSwarm(s bench.Summary, bold bool) *bytes.Buffer {
	percent := func(v float64) string { return fmt.Sprintf("%.1f%%", 100*v) }
	seconds := func(v float64) string { return fmt.Sprintf("%.2fs", v) }
	all := table{bold: bold, head: []string{"TURNS", "TURNS/H", "MEAN", "P50", "P95", "P99", "HIT", "CACHED", "MOVED", "WARM", "PARTLY", "COLD", "REFUSED", "WASTED", "FAILED"}}
	all.add(fmt.Sprint(s.Turns), fmt.Sprintf("%.0f", s.TurnsPerHour), seconds(s.Mean), seconds(s.P50), seconds(s.P95), seconds(s.P99),
		percent(s.Hit80), percent(s.Cached), percent(s.MovedNode), percent(s.Warm), percent(s.Partly), percent(s.Cold), percent(s.Rejected), fmt.Sprintf("%.0f", s.Wasted), fmt.Sprint(s.Failed))
	classes := table{bold: bold, head: []string{"CLASS", "TURNS", "SHARE", "MEAN", "P50", "P95", "P99"}}
	for _, k := range s.Classes {
		if k.Turns == 0 {
			classes.add(k.Class, "0", percent(0), "-", "-", "-", "-")
			continue
		}
		classes.add(k.Class, fmt.Sprint(k.Turns), percent(k.Share), seconds(k.Mean), seconds(k.P50), seconds(k.P95), seconds(k.P99))
	}
	nodes := table{bold: bold, head: []string{"NODE", "TURNS", "SHARE", "CACHED", "MEAN", "P50", "P95"}}
	for _, k := range s.Nodes {
		nodes.add(k.Node, fmt.Sprint(k.Turns), percent(k.Share), percent(k.Cached), seconds(k.Mean), seconds(k.P50), seconds(k.P95))
	}
	failures := table{bold: bold, head: []string{"FAILED", "WHY"}}
	for _, k := range s.Errors {
		failures.add(fmt.Sprint(k.Turns), k.Error)
	}
	out := new(bytes.Buffer)
	for i, t := range []*table{&all, &classes, &nodes, &failures} {
		if len(t.rows) == 0 {
			continue
		}
		if i > 0 {
			_, _ = io.WriteString(out, "\n")
		}
		t.draw(out)
	}
	return out
}
