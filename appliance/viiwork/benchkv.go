package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"viiwork/appliance/bench"
)

const kvHelp = `Conversations are sent from node to node of this mesh over HTTP, each once there and back, and what that took is compared
with computing the same prompt anew: from how many tokens on does a cache that moves pay? Without --entry they come in by
the running node, which also finds the others.

It is best done while nothing else runs: the nodes' figures are of all they do. Each prompt is computed twice in full. Ctrl-C
ends it and prints what there is. docs/bench.md says what the figures mean.`

// benchKV is the verb's flags.
type benchKV struct {
	bench.KV
	asJSON bool
	csv    string
}

func (c *cli) benchKVCommand() *cobra.Command {
	var b benchKV
	cmd := &cobra.Command{
		Use:   "kv",
		Short: "measure what moving a conversation's cache takes, and when it pays",
		Long:  kvHelp,
		Args:  exactly(0, takesNone),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if b.Entry != "" {
				entry, err := bench.ParseEntry(b.Entry)
				if err != nil {
					return usageError("%w", err)
				}
				b.Entry = entry
			}
			if err := b.Validate(); err != nil {
				return usageError("%w", err)
			}
			return c.benchKV(cmd.Context(), b)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&b.Entry, "entry", "", "the `address` of a node to come in by; without it, the running one")
	flags.StringVar(&b.Model, "model", "", "the model or alias; without it, the first one that two nodes have")
	flags.IntSliceVar(&b.Tokens, "tokens", []int{2000, 8000, 32000}, "lengths of prompts, with commas between them; cut to what a slot has room for")
	flags.IntVar(&b.Pairs, "pairs", 12, "so many pairs of nodes at most; from here to there and from there to here are two")
	flags.DurationVar(&b.Pause, "pause", 5*time.Second, "between a conversation's turns: the time in which its home saves it")
	flags.StringVar(&b.csv, "csv", "", "write a row for each move to this `file`")
	flags.BoolVar(&b.asJSON, "json", false, "print JSON")
	return cmd
}

func (c *cli) benchKV(ctx context.Context, b benchKV) error {
	ctx, release := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer release()
	context.AfterFunc(ctx, release) // a second one ends the program
	if b.Entry == "" {
		entries, err := c.meshEntries(ctx)
		if err != nil {
			return err
		}
		b.Entry = entries[0]
	}
	var rows kvRows
	if err := rows.open(b.csv); err != nil {
		return err
	}
	defer rows.close()
	report, err := c.move(ctx, b, &rows)
	if errors.Is(err, bench.ErrFewNodes) {
		return usageError("%w", err)
	}
	if err != nil {
		return err
	}
	if err := c.benchKVResult(report, b.asJSON); err != nil {
		return err
	}
	return rows.finish()
}

// move measures, and says on the way what.
func (c *cli) move(ctx context.Context, b benchKV, rows *kvRows) (bench.KVReport, error) {
	watch := newLine(c)
	done, all := 0, 0
	b.Begun = func(r bench.KVReport) {
		all = len(r.Pairs)
		c.note("%s of nodes with %s, by %s", count(all, "pair"), r.Model, r.Entry)
		for _, n := range r.Nodes {
			if n.Mode == "" {
				c.note("%s does not tell here what its caches do: what only it knows is left out", n.Node)
			}
		}
		rows.begin()
	}
	last := ""
	b.Next = func(p bench.KVPair, tokens int) {
		if way := p.From + " → " + p.To; way != last {
			last = way
			done++
		}
		watch.draw(fmt.Sprintf("pair %d of %d: %s, a prompt of %d tokens", done, all, last, tokens))
	}
	b.Ended = rows.add
	report, err := b.Run(ctx)
	watch.clear()
	return report, err
}

// benchKVResult prints what came of it. Nothing measured is an error.
func (c *cli) benchKVResult(report bench.KVReport, asJSON bool) error {
	if report.Cut && report.Measured() {
		c.note("interrupted after %v: these are the figures up to there", time.Duration(report.Seconds*float64(time.Second)).Round(time.Second))
	}
	if asJSON {
		if err := c.printJSON(report); err != nil {
			return err
		}
	} else if err := c.print(drawKV(report, c.bold())); err != nil {
		return err
	}
	if report.Measured() {
		return nil
	}
	for _, p := range report.Pairs {
		for _, s := range p.Sizes {
			return fmt.Errorf("nothing was measured: %s: see 'viiwork status --mesh'", s.Error)
		}
		if p.Verdict == bench.Switched {
			return errors.New("nothing was measured: no cache moves while kv_share is off: see docs/kv_share.md")
		}
	}
	return fmt.Errorf("nothing was measured in the %v that it ran", time.Duration(report.Seconds*float64(time.Second)).Round(time.Second))
}

// drawKV is a table for each pair, and what it comes to.
func drawKV(r bench.KVReport, bold bool) *bytes.Buffer {
	out := new(bytes.Buffer)
	for _, p := range r.Pairs {
		if len(p.Sizes) == 0 && p.Verdict == bench.NotKnown {
			continue // it did not come to that
		}
		if out.Len() > 0 {
			out.WriteByte('\n')
		}
		if len(p.Sizes) > 0 {
			fmt.Fprintf(out, "%s → %s\n", printable(p.From), printable(p.To))
			drawPair(p, bold).draw(out)
		}
		out.WriteString(printable(p.Says) + "\n")
	}
	return out
}

// drawPair is a row for each size. Where no node told what moving took, its columns are left out.
func drawPair(p bench.KVPair, bold bool) *table {
	head := []string{"TOKENS", "COLD", "MOVED", "SAVED", "BACK", "CACHED", "ROUTE"}
	told := p.Told()
	if told {
		head = append(head, "SAVE", "FETCH", "ASSEMBLE", "RESTORE", "MB", "PATH", "PROVED")
	}
	t := &table{bold: bold, head: head}
	for _, s := range p.Sizes {
		row := make([]string, len(head))
		for i := range row {
			row[i] = "-"
		}
		row[0] = fmt.Sprint(s.Tokens)
		if s.Error != "" {
			row[1] = s.Error
			t.add(row...)
			continue
		}
		seconds := func(v float64) string { return fmt.Sprintf("%.2fs", v) }
		copy(row[1:], []string{seconds(s.Cold), seconds(s.There.TTFT), seconds(s.Saved), seconds(s.Back.TTFT), cachedOfPrompt(s.There), orDash(s.There.Route)})
		if told {
			tookOf(s.There, row[7:])
		}
		t.add(row...)
	}
	return t
}

func tookOf(m bench.KVMove, cells []string) {
	ms := func(v float64) string { return fmt.Sprintf("%.0fms", v) }
	if m.Save != nil {
		cells[0] = ms(m.Save.MS)
	}
	i := m.Import
	if i == nil {
		return
	}
	copy(cells[1:], []string{ms(i.Fetch), ms(i.Assemble), ms(i.Restore), fmt.Sprintf("%.1f", float64(i.Bytes)/1e6)})
	cells[5], cells[6] = orDash(i.Path), "no"
	if i.Proved {
		cells[6] = "yes"
	}
}

func cachedOfPrompt(m bench.KVMove) string {
	if m.Cached < 0 || m.Prompt <= 0 {
		return "-"
	}
	return fmt.Sprintf("%d (%s)", m.Cached, m.Class)
}
