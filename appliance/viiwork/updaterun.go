package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"viiwork/appliance"
	"viiwork/appliance/config"
	"viiwork/appliance/setup"
	"viiwork/update"
	"viiwork/update/install"
)

// updating is one update of the node of this configuration.
type updating struct {
	c        *cli
	flags    updateFlags
	cfg      *config.Config
	path     string // of the configuration, absolute: by it a trial knows its node
	versions *install.Versions
	from     string // what runs now
	node     *node
}

// beginUpdate finds what there is to replace. A program that does not lie in a folder of versions replaces nothing.
func (c *cli) beginUpdate(ctx context.Context, f updateFlags) (*updating, error) {
	cfg, found, err := c.load()
	if err != nil {
		return nil, err
	}
	path, err := filepath.Abs(found)
	if err != nil {
		return nil, fmt.Errorf("finding %s: %w", found, err)
	}
	running, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	versions, err := install.Find(ctx, running, setup.Command)
	if err != nil {
		return nil, refusedBy(orInstalled(err, running))
	}
	from, err := versions.Current()
	if err != nil {
		return nil, err
	}
	return &updating{c, f, cfg, path, versions, from, c.nodeOf(cfg)}, nil
}

// orInstalled says which program to ask where this one does not lie in a folder of versions, but the one does that a setup
// has installed: what a person put on the PATH for the setup is not what the node runs.
func orInstalled(err error, running string) error {
	program := ofSetup()
	if program == "" || !errors.Is(err, install.ErrUnmanaged) {
		return err
	}
	return fmt.Errorf("%w: what a setup installed here is %s: run '%s update', or let this one lead to it from now on: 'ln -sfn %s %s'",
		install.ErrUnmanaged, program, program, program, running)
}

// ofSetup is the program that a setup has put into a folder of versions on this machine; "" = none has.
func ofSetup() string {
	machine, err := setup.ThisMachine("", thisRelease().Version)
	if err != nil {
		return ""
	}
	program := machine.Layout().Program()
	if versions, _ := install.Of(program); versions == nil {
		return ""
	}
	return program
}

// update installs what is new, or what --to names.
func (c *cli) update(ctx context.Context, f updateFlags) error {
	u, err := c.beginUpdate(ctx, f)
	if err != nil {
		return err
	}
	found, err := u.find(ctx)
	if err != nil || found == nil {
		return err
	}
	yes, err := c.ask(ctx, fmt.Sprintf("install %s in place of %s?", found.Version(), u.from), "give --yes, or --check to look only")
	if err != nil {
		return err
	}
	if !yes {
		return errUnwanted
	}
	bar := newFetchBar(c)
	order := u.order(bar.at)
	err = u.versions.Install(ctx, found, order)
	bar.clear()
	if err != nil {
		return refusedBy(err)
	}
	return u.swap(ctx, found.Version())
}

// find verifies what is to be installed; nil = there is nothing new, and that was said.
func (u *updating) find(ctx context.Context) (*update.Verified, error) {
	updater, err := u.c.updater(u.cfg, u.flags)
	if err != nil {
		return nil, err
	}
	to := u.flags.to
	if to == "" {
		offer, err := updater.Check(ctx)
		if err != nil {
			return nil, err
		}
		for _, w := range offer.Warnings {
			u.c.note("warning: %s", printable(w))
		}
		if !offer.New {
			if u.flags.asJSON {
				return nil, u.c.printJSON(updated{State: "current", Version: u.from, From: u.from})
			}
			return nil, u.c.print(drawOffer(offer))
		}
		if !u.flags.asJSON {
			u.c.note("%s", drawOffer(offer))
		}
		to = offer.Version
	}
	found, report, err := updater.Find(ctx, to, u.flags.downgrade)
	if err != nil {
		if len(report.Checks) > 0 && !u.flags.asJSON {
			u.c.note("%s", u.c.drawReport(report))
		}
		return nil, refusedBy(err)
	}
	return found, nil
}

// rollBack goes to the version before; while a trial runs it ends that.
func (c *cli) rollBack(ctx context.Context, f updateFlags) error {
	u, err := c.beginUpdate(ctx, f)
	if err != nil {
		return err
	}
	is, err := u.versions.State()
	if err != nil {
		return err
	}
	previous, err := u.versions.Previous()
	if err != nil {
		return err
	}
	question := fmt.Sprintf("go back from %s to %s?", u.from, cmp.Or(previous, "the version before"))
	if is.Trial != nil {
		question = fmt.Sprintf("take %s back, which is on trial, and start %s?", is.Trial.Version, is.Trial.Previous)
	}
	yes, err := c.ask(ctx, question, "give --yes")
	if err != nil {
		return err
	}
	if !yes {
		return errUnwanted
	}
	if is.Trial != nil {
		return u.stop(ctx, is.Trial)
	}
	bar := newFetchBar(c)
	err = u.versions.Back(ctx, u.order(bar.at))
	bar.clear()
	if err != nil {
		return refusedBy(err)
	}
	return u.swap(ctx, previous)
}

// stop ends a trial. Its judge does that, or one that is started now.
func (u *updating) stop(ctx context.Context, t *install.Trial) error {
	if err := u.versions.Stop("a person took it back"); err != nil {
		return refusedBy(err)
	}
	if err := u.startJudge(); err != nil {
		return err
	}
	err := u.follow(ctx, t.Version)
	var back takenBack
	if !errors.As(err, &back) || back.fault != "" {
		return err
	}
	if !u.flags.asJSON {
		fmt.Fprintf(u.c.Out, "%s was taken back, %s runs as before\n", t.Version, t.Previous)
	}
	return nil // which is what was asked for
}

// order is what both ways have in common.
func (u *updating) order(said func(install.Progress)) install.Order {
	w := patience(u.cfg)
	o := install.Order{
		Config: u.path, StateDir: u.cfg.Node.StateDir, Named: u.flags.to != "", Said: said, Environ: u.c.Environ,
		Patience: w.up + w.load + u.cfg.Node.Drain,
	}
	if u.flags.patience > 0 {
		o.Patience = u.flags.patience
	}
	local := install.LocalNode{Socket: appliance.SocketPath(u.cfg.Node.StateDir), Name: u.cfg.Node.Name}
	o.Before = func(ctx context.Context) install.Before {
		return install.Observe(ctx, local, func(text string) { u.c.note("warning: %s", printable(text)) })
	}
	return o
}

// swap has the node end and start anew, and follows the trial to its end. A node that nothing starts again is left as it
// is: whoever starts it tries the new version then.
func (u *updating) swap(ctx context.Context, to string) error {
	body, err := u.node.call(ctx, http.MethodPost, "/api/update/restart", struct{}{})
	var no *refused
	var gone coded
	switch {
	case err == nil:
		body.Close()
	case errors.As(err, &no) && (no.status == http.StatusConflict || no.status == http.StatusNotFound || no.status == http.StatusMethodNotAllowed):
		return u.byHand(to, "nothing starts this node again by itself: end it, then start it with")
	case errors.As(err, &gone) && gone.code == exitNotRunning:
		return u.byHand(to, "no node runs: start it with its service, or with")
	default:
		return fmt.Errorf("%s is installed, and the node was not told to start anew: %w", to, err)
	}
	if err := u.startJudge(); err != nil {
		return err
	}
	return u.follow(ctx, to)
}

func (u *updating) byHand(to, how string) error {
	u.c.note("%s is installed. %s '%s serve --config %s'; it is on trial from then on", to, how, u.versions.Program("current"), u.path)
	if u.flags.asJSON {
		return u.c.printJSON(updated{State: "installed", Version: to, From: u.from})
	}
	return nil
}

func (u *updating) startJudge() error {
	args := []string{"update", "judge", "--config", u.path}
	if u.flags.watch > 0 {
		args = append(args, "--watch", u.flags.watch.String())
	}
	return u.versions.StartJudge(u.c.Environ, args...)
}

// updated is the JSON of 'update'.
type updated struct {
	State   string  `json:"state"` // current, installed, good, taken_back
	Version string  `json:"version"`
	From    string  `json:"from"`
	Why     string  `json:"why"`   // it was taken back
	Fault   string  `json:"fault"` // what is still wrong although it was
	Drain   float64 `json:"drain_s"`
	Swap    float64 `json:"swap_s"`
}

// takenBack is how an update ends that did not hold.
type takenBack struct {
	error
	fault string
}

const followEvery = 250 * time.Millisecond

// follow shows a trial until it has ended. Whoever leaves early changes nothing by it.
func (u *updating) follow(ctx context.Context, version string) error {
	bar := newTrialBar(u.c)
	defer bar.clear()
	for {
		is, err := u.versions.State()
		if err != nil {
			return err
		}
		if is.Trial == nil {
			bar.clear()
			return u.ended(is.Last, version)
		}
		bar.at(*is.Trial)
		select {
		case <-ctx.Done():
			bar.clear()
			return fmt.Errorf("left while %s is on trial: that goes on; 'viiwork status' tells how it ends", is.Trial.Version)
		case <-time.After(followEvery):
		}
	}
}

func (u *updating) ended(o *install.Outcome, version string) error {
	if o == nil || o.Version != version {
		return fmt.Errorf("the trial of %s has ended without a word: look at 'viiwork status'", version)
	}
	r := updated{State: "good", Version: o.Version, From: o.From, Why: o.Why, Fault: o.Fault, Drain: o.Drain, Swap: o.Swap}
	if !o.Good {
		r.State = "taken_back"
	}
	if u.flags.asJSON {
		if err := u.c.printJSON(r); err != nil {
			return err
		}
	} else if o.Good {
		fmt.Fprintf(u.c.Out, "%s runs and is good; %s stays to go back to. Until the old one had ended: %.1f s, until the new one answered: %.1f s\n",
			o.Version, o.From, o.Drain, o.Swap)
	}
	switch {
	case o.Good:
		return nil
	case o.Fault != "":
		return takenBack{fmt.Errorf("%s was taken back (%s), and something is still wrong: %s: see 'viiwork status' and 'viiwork doctor'", o.Version, o.Why, o.Fault), o.Fault}
	}
	return takenBack{fmt.Errorf("%s was taken back, %s runs as before: %s", o.Version, o.From, o.Why), ""}
}
