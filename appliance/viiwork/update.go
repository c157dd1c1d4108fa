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

	"viiwork/appliance/config"
	"viiwork/update"
	"viiwork/update/install"
	"viiwork/update/swap"
)

const updateHelp = `Looks for a newer release in update.source (a registry or a directory), says whose it is and how that was proved, and asks. Then
it is fetched, tried, installed beside the version that runs, and the node drains and starts with it; engines run on.

From then on it is on trial: the program of before judges whether the node is as ready as it was, answers, and stays up. If
not, the version of before comes back by itself, and this one is not offered again. --to names a version; one older than what
was seen here is refused unless --allow-downgrade says that you want it. --rollback goes back to the version before, or ends a
trial. --check only looks. What is installed without a proof by the publisher that this program was built for: nothing.

With --mesh all nodes do that, one at a time and this machine's last; it leads. The first that goes back stops it. --plan shows the
order and changes nothing. The same command follows what is under way, on any machine, and leaving it with Ctrl-C ends nothing:
--stop does, when the turn at hand is over.`

// updateFlags are what 'update' is asked.
type updateFlags struct {
	check, rollback, asJSON, downgrade bool
	mesh, plan, stop                   bool
	to, source, trustRoot              string
	watch, patience                    time.Duration // 0 = as usual
}

func (f updateFlags) wrong() error {
	switch {
	case f.plan && !f.mesh:
		return usageError("--plan says what --mesh would do: give both")
	case f.stop && (!f.mesh || f.plan || f.to != ""):
		return usageError("--stop ends what --mesh has begun, whatever version that is: give --mesh --stop alone, with --json if a program reads it")
	case f.mesh && (f.check || f.rollback || f.source != "" || f.trustRoot != "" || f.downgrade):
		return usageError("with --mesh each node looks into its own update.source, and goes to no older version: give --to, --plan, --stop and --json only")
	case f.downgrade && f.to == "":
		return usageError("--allow-downgrade needs --to VERSION")
	case f.rollback && (f.check || f.to != "" || f.source != "" || f.trustRoot != ""):
		return usageError("--rollback goes to the version before, and to no other: say --to VERSION for one")
	}
	return nil
}

func (c *cli) updateCommand() *cobra.Command {
	var f updateFlags
	cmd := &cobra.Command{
		Use:   "update",
		Short: "install the newest proved release on trial; with --mesh on all nodes, one at a time",
		Long:  updateHelp,
		Args:  exactly(0, takesNone),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.wrong(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if f.check {
				return c.checkUpdate(ctx, f)
			}
			if f.stop {
				return c.stopMesh(ctx, f.asJSON)
			}
			if f.mesh {
				return c.updateMesh(ctx, meshUpdate{to: f.to, plan: f.plan, asJSON: f.asJSON})
			}
			if done, err := c.updateBox(ctx, f); done {
				return err
			}
			if f.rollback {
				return c.rollBack(ctx, f)
			}
			return c.update(ctx, f)
		},
	}
	cmd.Flags().BoolVar(&f.check, "check", false, "look, and change nothing")
	cmd.Flags().BoolVar(&f.mesh, "mesh", false, "update all nodes of the mesh, one at a time, led by this machine's")
	cmd.Flags().BoolVar(&f.plan, "plan", false, "with --mesh: say what would be done, and change nothing")
	cmd.Flags().BoolVar(&f.stop, "stop", false, "with --mesh: end what is under way after the turn at hand, whichever node leads it")
	cmd.Flags().BoolVar(&f.rollback, "rollback", false, "go back to the version before, or end a trial")
	cmd.Flags().StringVar(&f.to, "to", "", "take this `version`")
	cmd.Flags().BoolVar(&f.downgrade, "allow-downgrade", false, "with --to: also if it is older than what was seen here")
	cmd.Flags().StringVar(&f.source, "source", "", "look into this `directory or repository` in place of update.source")
	cmd.Flags().StringVar(&f.trustRoot, "trust-root", "", "take the signing services' keys from this `trusted_root.json`")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	cmd.Flags().DurationVar(&f.watch, "watch", 0, "how long a version that proved itself has to stay up")
	cmd.Flags().DurationVar(&f.patience, "patience", 0, "how long a version may take to be as ready as the one before")
	for _, name := range []string{"watch", "patience"} {
		_ = cmd.Flags().MarkHidden(name) // for those who try updates out
	}
	cmd.AddCommand(c.bootCommand(), c.judgeCommand(), c.swapCommand())
	return cmd
}

// updater looks where the configuration or the flags say. A build without a publisher believes nobody.
func (c *cli) updater(cfg *config.Config, f updateFlags) (*update.Updater, error) {
	if f.source == "" {
		f.source = cfg.Update.Source
	}
	trust, err := trustConfig(f.trustRoot)
	if err != nil {
		return nil, err
	}
	me := thisRelease()
	u, err := update.New(update.Config{Publisher: me.Publisher, Version: me.Version, Source: f.source, StateDir: cfg.Node.StateDir, Trust: trust, Members: members{c.nodeOf(cfg)}})
	if errors.Is(err, update.ErrNoPublisher) {
		return nil, coded{exitRefused, err}
	}
	return u, err
}

func (c *cli) checkUpdate(ctx context.Context, f updateFlags) error {
	cfg, _, err := c.load()
	if err != nil {
		return err
	}
	u, err := c.updater(cfg, f)
	if err != nil {
		return err
	}
	if f.to != "" {
		_, report, err := u.Find(ctx, f.to, f.downgrade)
		return c.tellReport(report, f.asJSON, refusedBy(err))
	}
	offer, err := u.Check(ctx)
	if err != nil {
		return err
	}
	if f.asJSON {
		return c.printJSON(offer)
	}
	for _, w := range offer.Warnings {
		c.note("warning: %s", printable(w))
	}
	return c.print(drawOffer(offer))
}

// refusedBy gives the rules' own no its exit code.
func refusedBy(err error) error {
	for _, rule := range []error{update.ErrDowngrade, install.ErrRefused, install.ErrUnmanaged, install.ErrBusy, swap.ErrRefused} {
		if errors.Is(err, rule) {
			return coded{exitRefused, err}
		}
	}
	return err
}

func drawOffer(o update.Offer) *bytes.Buffer {
	out := new(bytes.Buffer)
	switch {
	case o.New:
		fmt.Fprintf(out, "%s is new; this is %s\n", o.Version, printable(o.Running))
	case o.Version == "":
		fmt.Fprintf(out, "%s has no release\n", printable(o.Source))
	default:
		fmt.Fprintf(out, "nothing is new: %s has %s, this is %s\n", printable(o.Source), o.Version, printable(o.Running))
	}
	if r := o.Report; o.New && r != nil {
		for _, fact := range [][2]string{
			{"where", o.Source}, {"digest", r.Digest}, {"from", r.Publisher}, {"commit", r.Commit}, {"signed", r.Signed},
			{"proof", fmt.Sprintf("%s held, by the trust root %s", count(len(r.Checks), "check"), r.TrustRoot)},
		} {
			fmt.Fprintf(out, "%-7s %s\n", fact[0], printable(fact[1]))
		}
	}
	return out
}
