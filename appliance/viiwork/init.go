package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"viiwork/appliance"
	"viiwork/appliance/config"
	"viiwork/appliance/setup"
	"viiwork/appliance/setup/wizard"
	"viiwork/engine/gpu"
)

const initHelp = `Makes this machine a member of a mesh: looks at it, asks what to serve and which mesh to join, shows every file, and only
when you agree writes them and starts the node. Ctrl-C at any question leaves the machine as it was. On a machine that has a
configuration it changes that one and shows the difference.

With --answers the questions are answered by a file (docs/setup.md, The wizard); --yes then agrees to what comes of it. With
--dry-run everything is shown and nothing is done, --json in a form for programs. --accessible asks in plain lines, also where
screen readers or pipes are at the other end.`

// initFlags is what the verb was told.
type initFlags struct {
	answers, hostRoot          string
	dryRun, asJSON, accessible bool
}

func (c *cli) initCommand() *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use:   "init",
		Short: "set this machine up: its models, its mesh, its service",
		Long:  initHelp,
		Args:  exactly(0, takesNone),
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.init(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.answers, "answers", "", "the `file` with the answers")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show every file and change nothing")
	flags.BoolVar(&f.asJSON, "json", false, "with --dry-run: print JSON")
	flags.BoolVar(&f.accessible, "accessible", false, "ask in plain lines")
	flags.StringVar(&f.hostRoot, "host-root", "", "with --dry-run: look at the hardware of the machine in this `folder`")
	return cmd
}

// check names what cannot be meant. Nothing is taken as answered where nobody can answer.
func (f initFlags) check(c *cli) error {
	switch {
	case f.asJSON && !f.dryRun:
		return usageError("--json goes with --dry-run")
	case f.hostRoot != "" && !f.dryRun:
		return usageError("--host-root goes with --dry-run: files for another machine do not belong on this one")
	case f.asJSON && f.answers == "":
		return usageError("--json needs --answers: the questions would stand among what it prints")
	case f.answers != "" && !f.dryRun && !c.yes && !f.accessible && !c.canAsk():
		return usageError("there is no terminal to ask at: --answers needs --yes, which agrees to the files, or --dry-run, which only shows them")
	case f.answers == "" && !f.accessible && !c.canAsk():
		return usageError("there is no terminal to ask at: give --answers FILE with --yes or --dry-run, or --accessible to answer in plain lines")
	}
	return nil
}

// canAsk reports whether a person can be asked: both ends are a terminal.
func (c *cli) canAsk() bool {
	in, ok := c.In.(*os.File)
	return ok && isTerminal(in) && isTerminal(c.Out)
}

// canDraw reports whether the terminal can move its cursor and knows its size: a serial line knows neither, and a form on
// nothing by nothing never shows.
func (c *cli) canDraw() bool {
	out, ok := c.Out.(*os.File)
	if !ok || c.getenv("TERM") == "dumb" || c.getenv("TERM") == "" {
		return false
	}
	width, height, err := term.GetSize(int(out.Fd()))
	return err == nil && width > 0 && height > 0
}

func (c *cli) init(ctx context.Context, f initFlags) error {
	if err := f.check(c); err != nil {
		return err
	}
	// A terminal that goes away (SIGHUP) leaves, too: else a device that waits for its login would be left behind.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	sight, err := c.look(ctx, f)
	if err != nil {
		return err
	}
	cfg := wizard.Config{
		Sight: sight, DryRun: f.dryRun, Files: (&appliance.Survey{Root: f.hostRoot}).ModelFiles, Digest: appliance.ModelDigest, Log: slog.New(slog.DiscardHandler),
	}
	if f.answers != "" {
		if cfg.Answers, err = wizard.LoadAnswers(f.answers); err != nil {
			return err
		}
	}
	if f.hostRoot == "" {
		cfg.Preflight = func(ctx context.Context, n setup.Needs) []setup.Check {
			return setup.Preflight(ctx, n, setup.Probe{Built: thisRelease().date()})
		}
		cfg.Running = sight.Config != nil && c.runs(ctx, sight.Config)
	}
	cfg.Prompt = f.prompter(ctx, c)
	w := wizard.New(cfg)
	draft, err := w.Run(ctx)
	if err == nil && !f.dryRun {
		err = c.write(ctx, draft, sight, cfg.Prompt)
	}
	if err != nil || f.dryRun {
		return errors.Join(wizardError(err), w.Forget(), c.showDraft(f, draft, sight, err))
	}
	w.Keep()
	return c.start(ctx, started{draft: draft, sight: sight, prompt: cfg.Prompt})
}

// prompter is who asks; nil where a file answers everything.
func (f initFlags) prompter(ctx context.Context, c *cli) wizard.Prompter {
	switch {
	case f.answers != "" && (c.yes || f.dryRun):
		return nil
	case f.accessible, c.canAsk() && !c.canDraw():
		return wizard.NewPlain(ctx, c.In, c.Out)
	}
	return &wizard.Forms{In: c.In, Out: c.Out, Plain: c.getenv("NO_COLOR") != ""}
}

// showDraft prints what a file of answers comes to; a conversation has shown it already.
func (c *cli) showDraft(f initFlags, draft wizard.Setup, sight wizard.Sight, err error) error {
	if err != nil || f.answers == "" || !f.dryRun {
		return nil
	}
	if f.asJSON {
		return c.printJSON(draft.Show(sight.Cards))
	}
	out := new(bytes.Buffer)
	if err := draft.Write(out, sight); err != nil {
		return err
	}
	return c.print(out)
}

// wizardError gives the ends of a conversation their exit codes.
func wizardError(err error) error {
	switch {
	case errors.Is(err, wizard.ErrLeft), errors.Is(err, setup.ErrRefused):
		return coded{exitRefused, err}
	case errors.Is(err, wizard.ErrNobody):
		return coded{exitUsage, err}
	}
	return err
}

// runs reports whether the node of a configuration runs.
func (c *cli) runs(ctx context.Context, cfg *config.Config) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := c.nodeOf(cfg).read(ctx, "/healthz")
	return err == nil
}

// write puts the files on disk. What is replaced is shown first.
func (c *cli) write(ctx context.Context, d wizard.Setup, s wizard.Sight, prompt wizard.Prompter) error {
	return setup.Apply(ctx, setup.Plan{Files: d.Files}, func(diff string) bool {
		if prompt == nil {
			c.note("%s", printableLines(diff))
			return c.yes
		}
		prompt.Tell("\nThis is replaced, and kept beside it:\n" + diff)
		at, err := prompt.Choose(ctx, wizard.Question{Title: "Replace it?", Options: []string{"No, leave the machine as it is", "Yes"}})
		return err == nil && at == 1
	})
}

// look sees what there is to see of the machine.
func (c *cli) look(ctx context.Context, f initFlags) (wizard.Sight, error) {
	root := filepath.Clean(cmp.Or(f.hostRoot, "/"))
	host := gpu.At(root)
	machine, err := setup.ThisMachine("/", thisRelease().Version)
	if err != nil {
		return wizard.Sight{}, err
	}
	if root != "/" {
		if info, err := os.Stat(root); err != nil || !info.IsDir() {
			return wizard.Sight{}, usageError("--host-root: %s is no folder", root)
		}
		machine = otherMachine(host, machine)
	}
	sight := wizard.Look(ctx, host, machine)
	if c.configPath != "" {
		if sight.Path, err = filepath.Abs(c.configPath); err != nil {
			return sight, fmt.Errorf("finding --config: %w", err)
		}
	}
	if root != "/" {
		return sight, nil
	}
	lookAtDocker(ctx, &sight)
	return sight, c.lookAtSetup(&sight)
}

// otherMachine is one of which only the hardware is known: files go where they would on a fresh one of its kind.
func otherMachine(host gpu.Host, this setup.Machine) setup.Machine {
	m := setup.Machine{Manager: setup.Systemd, Home: this.Home, Version: this.Version}
	if host.OS == "darwin" {
		m.Manager, m.User = setup.Launchd, true
	}
	_, err := os.Stat(filepath.Join(host.Root, "sys/class/kfd"))
	m.AMD = err == nil
	return m
}

// lookAtSetup reads the configuration that is there already: it is what an owner who comes again wants to change.
func (c *cli) lookAtSetup(s *wizard.Sight) error {
	path := cmp.Or(s.Path, s.Machine.Layout().Config)
	s.Variables, _ = setup.Read(filepath.Join(filepath.Dir(path), config.BesideName)) // what cannot be read is named when it is to be replaced
	cfg, err := c.loadFrom(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case cfg == nil:
		return fmt.Errorf("there is a configuration already, and it cannot be read: %w", err)
	}
	s.Config, s.Secret = cfg, keptSecret(cfg).Bytes()
	return nil
}
