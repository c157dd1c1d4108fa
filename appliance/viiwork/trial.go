package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"viiwork/appliance"
	"viiwork/appliance/setup"
	"viiwork/appliance/status"
	"viiwork/update/install"
)

// bootCommand counts a start before it is one. What starts the node runs it by the previous version's program, and goes on
// whatever becomes of it: it must not be what keeps a node down.
func (c *cli) bootCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "boot",
		Short:  "count a start of the node while a version is on trial (for service managers)",
		Args:   exactly(0, takesNone),
		Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			versions, _, err := installed()
			if err != nil || versions == nil {
				return nil
			}
			back, err := versions.Boot(install.Start{Config: c.configPath, Invocation: cmp.Or(c.getenv("INVOCATION_ID"), oneStart())})
			if err != nil {
				fmt.Fprintf(c.Err, "viiwork: update boot: %v\n", err)
			}
			if back != "" {
				c.note("going back to %s: what was on trial did not hold", back)
			}
			return nil
		},
	}
}

// judgeCommand is run by the previous version's program, in a session of its own.
func (c *cli) judgeCommand() *cobra.Command {
	var watch time.Duration
	cmd := &cobra.Command{
		Use:    "judge",
		Short:  "find what is on trial good, or take it back",
		Args:   exactly(0, takesNone),
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, _, err := c.load()
			if cfg == nil {
				return err
			}
			versions, _, err := installed()
			if err == nil && versions == nil {
				err = errors.New("this program does not lie in a folder of versions: nothing is on trial")
			}
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return versions.Judge(ctx, install.JudgeConfig{
				Node:  install.LocalNode{Socket: appliance.SocketPath(cfg.Node.StateDir), Name: cfg.Node.Name},
				Watch: watch, Stop: cfg.Node.Drain + 10*time.Second, Log: newLog(c, cfg.Log), Revive: reviver(versions),
			})
		},
	}
	cmd.Flags().DurationVar(&watch, "watch", 0, "how long it has to stay up; 0 = a minute")
	return cmd
}

// reviver has systemd start the node again where it has given up on it; nil = it is not this machine's service that runs
// these versions.
func reviver(v *install.Versions) func(context.Context) error {
	machine, err := setup.ThisMachine("", thisRelease().Version)
	if err != nil || machine.Layout().Program() != v.Program("current") {
		return nil
	}
	return func(ctx context.Context) error { return setup.Revive(ctx, machine, setup.Command) }
}

// installed is the folder of versions that this program lies in, and which of them it is; nil = it lies elsewhere.
func installed() (*install.Versions, string, error) {
	running, err := os.Executable()
	if err != nil {
		return nil, "", fmt.Errorf("finding this program: %w", err)
	}
	versions, version := install.Of(running)
	return versions, version, nil
}

// oneStart tells this start from all others where no manager does.
func oneStart() string { return fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano()) }

// onTrial is what a node that starts has to do with updates. Its zero value is a program that lies in no folder of versions.
type onTrial struct {
	versions *install.Versions
	config   string
	environ  []string
	fault    error // of what a node can do without
}

// begin counts this start while a version is on trial, and starts a judge unless one is there: the one of before may have
// ended with the machine. An error means that another version is to be started in place of this one.
func (c *cli) begin(path string) (on onTrial, err error) {
	versions, running, err := installed()
	if err != nil || versions == nil || path == "" {
		return onTrial{}, nil
	}
	on = onTrial{versions: versions}
	if on.config, err = filepath.Abs(path); err != nil {
		return onTrial{}, nil
	}
	s := install.Start{Config: on.config, Running: running, PID: os.Getpid(), Invocation: oneStart()}
	if c.getenv("NOTIFY_SOCKET") != "" { // else it may be that of a terminal, the same for many starts
		s.Invocation = cmp.Or(c.getenv("INVOCATION_ID"), s.Invocation)
	}
	back, err := versions.Boot(s)
	if back != "" {
		return on, fmt.Errorf("%s was taken back: start %s, which %s leads to again", running, back, versions.Program("current"))
	}
	on.environ = c.Environ
	on.fault = errors.Join(err, on.judge())
	return on, nil
}

// judge starts one if there is something to judge and nobody does.
func (on onTrial) judge() error {
	return on.versions.StartJudge(on.environ, "update", "judge", "--config", on.config)
}

// judgeAgain is how often a node looks whether the version that it is still has its judge.
const judgeAgain = time.Minute

// keepJudge makes sure of a judge until the trial has ended, or stop is called.
func (on onTrial) keepJudge(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() {
		look := time.NewTicker(judgeAgain)
		defer look.Stop()
		for on.runs() {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
				_ = on.judge() // told at the start, if it cannot be
			}
		}
	})
	return func() {
		cancel()
		keeping.Wait()
	}
}

// runs reports whether there is a trial of this node.
func (on onTrial) runs() bool {
	if on.versions == nil {
		return false
	}
	is, err := on.versions.State()
	return err == nil && is.Trial != nil && is.Trial.Config == on.config
}

// ended is the error with which a node on trial ends: one that is worth another start. A manager that leaves a refusal
// alone would leave it alone after the old version has come back, too.
func (on onTrial) ended(err error) error {
	if err == nil || !on.runs() {
		return err
	}
	return coded{exitFailed, err}
}

// news is what an owner should know of updates.
func (on onTrial) news() []status.Warning {
	if on.versions == nil {
		return nil
	}
	return updateNews(on.versions)
}

func updateNews(v *install.Versions) []status.Warning {
	is, err := v.State()
	switch {
	case err != nil:
		return []status.Warning{{ID: "update", Text: err.Error(), Fix: "do as it says"}}
	case is.Trial != nil:
		return []status.Warning{{ID: "update_trial", Text: trialText(*is.Trial), Fix: "the trial ends by itself; 'viiwork update --rollback' takes it back now"}}
	}
	return lastNews(is.Last)
}

// lastNews is what is to be said of the last update: nothing if it was good.
func lastNews(last *install.Outcome) []status.Warning {
	if last == nil || last.Good {
		return nil
	}
	text := fmt.Sprintf("%s was taken back on %s: %s", last.Version, last.Time.Local().Format(time.DateTime), last.Why)
	if last.Fault != "" {
		text += "; after that: " + last.Fault
	}
	return []status.Warning{{ID: "update_taken_back", Text: text, Fix: fmt.Sprintf("wait for a newer release; 'viiwork update --to %s' tries it again", last.Version)}}
}
