package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"viiwork/appliance"
	"viiwork/appliance/config"
	"viiwork/appliance/status"
)

const serveHelp = `Runs this machine's node in the foreground.

SIGTERM or Ctrl-C: grant no more seats, finish what runs (node.drain at most), exit 0; a second one exits at once.
Engines are left running for the next start, which adopts them without loading a model again; --stop-engines ends them.
SIGHUP: read the configuration again; models that did not change are not touched. A file with a fault changes nothing.`

func (c *cli) serveCommand() *cobra.Command {
	var stopEngines, untilEOF bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "run the node in the foreground",
		Long:  serveHelp,
		Args:  exactly(0, takesNone),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.serve(cmd.Context(), stopEngines, untilEOF)
		},
	}
	cmd.Flags().BoolVar(&stopEngines, "stop-engines", false, "end the engines with the node")
	cmd.Flags().BoolVar(&untilEOF, "until-eof", false, "end as by SIGTERM when standard input ends")
	_ = cmd.Flags().MarkHidden("until-eof") // for programs that start nodes, such as the demo
	return cmd
}

func (c *cli) serve(ctx context.Context, stopEngines, untilEOF bool) error {
	names, err := claim(c.getenv)
	if err != nil {
		return err
	}
	cfg, path, err := c.load()
	trial, another := c.begin(path) // also with a configuration that this version does not take: that start counts
	if another != nil {
		return another
	}
	if err != nil {
		return trial.ended(c.unusable(ctx, err, trial.runs(), nil))
	}
	log := newLog(c, cfg.Log)
	if trial.fault != nil {
		log.Warn("updates are not in order, the node starts all the same", "error", trial.fault)
	}
	if err := c.resumeSwap(ctx, cfg); err != nil {
		log.Warn("an update of this container waits, and could not be gone on with", "error", err)
	}
	defer takeStray(log)()
	defer trial.keepJudge(ctx)()
	// Before anything is started: a signal must never meet the default handler, which would end us between two acts.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	if untilEOF {
		go func() {
			_, _ = io.Copy(io.Discard, c.In) // not to be interrupted: it ends with the process at the latest
			signals <- syscall.SIGTERM
		}()
	}
	manager := newManager(c.getenv, nodeAt(appliance.SocketPath(cfg.Node.StateDir), ""))
	g, err := takeGiven(cfg, names)
	if err != nil {
		return trial.ended(err)
	}
	if g.stale {
		log.Info("listeners of an earlier configuration are closed")
		manager.forget()
	}
	node, err := appliance.New(cfg, appliance.Options{
		Version: thisRelease().Version, StopEngines: stopEngines, Log: log,
		Given: g.listeners, Keep: manager.keep, Restarted: restarts(c.getenv),
		Ready: func(...string) { manager.say("READY=1") }, Installer: c.newInstaller(ctx, cfg, path),
		Hangs: func(err error) { // engines run on, and what starts this node does so again; an end by the book would wait for the device
			log.Error("this node ends at once", "error", err)
			os.Exit(1)
		},
		News: func() []status.Warning { return append(trial.news(), swapNews(cfg.Node.StateDir)...) },
	})
	if err != nil {
		return trial.ended(c.unusable(ctx, err, trial.runs(), signals))
	}
	return trial.ended(served{node: node, signals: signals, reload: func() { cfg = c.reload(node, cfg, path, log) }, manager: manager}.run(ctx))
}

// faultPause is how long a node waits that cannot take its configuration: a service is started anew half a second after its end.
const faultPause = 10 * time.Second

// unusable ends a start whose configuration has faults. A manager starts the node again, since some mend themselves, as a disk that
// comes late with the models: it is told of each fault at once, and kept from doing so twice a second for ever. A version on trial
// has no time to lose. A signal ends the pause, also one that came while the node was being made: what it asks for is a node that
// ends, or one that reads its configuration again. Without signals that are caught it ends the process.
func (c *cli) unusable(ctx context.Context, err error, onTrial bool, signals <-chan os.Signal) error {
	var faults config.Faults
	if onTrial || c.getenv("NOTIFY_SOCKET") == "" || !errors.As(err, &faults) || exitCode(err) != exitFailed {
		return err
	}
	c.complain("serve", err)
	fmt.Fprintf(c.Err, "viiwork: serve: the configuration is looked at again in %s\n", faultPause)
	select {
	case <-ctx.Done():
	case <-signals:
	case <-time.After(faultPause):
	}
	return errSaid
}

// served is a node and the signals it obeys.
type served struct {
	node    *appliance.Appliance
	signals <-chan os.Signal
	reload  func()   // on SIGHUP; nil = a SIGHUP ends the node as the other signals do, and a second one waits for it
	manager *manager // nil = none that wants to know
}

// run runs the node until it ends: the first signal drains it, the second gives up on the drain.
func (s served) run(ctx context.Context) error {
	ctx, drain := context.WithCancel(ctx)
	defer drain()
	ended := make(chan error, 1)
	go func() { ended <- s.node.Run(ctx) }()
	beat, still := s.manager.beats()
	defer still()
	asked, ending := false, ctx.Done()
	for {
		select {
		case err := <-ended:
			return err
		case <-ending:
			ending = nil
			s.manager.say("STOPPING=1")
		case <-beat:
			s.manager.beat()
		case got := <-s.signals:
			switch {
			case got == syscall.SIGHUP && s.reload != nil:
				s.reload()
			case !asked:
				asked = true
				drain()
			default:
				s.node.Abort()
				if s.reload != nil {
					return errors.New("stopped at once by a second signal: requests that ran were cut off")
				}
			}
		}
	}
}

// reload takes a new configuration, or leaves everything as it is and says why. It returns the one that rules now.
func (c *cli) reload(node *appliance.Appliance, old *config.Config, path string, log *slog.Logger) *config.Config {
	cfg, err := c.loadFrom(path)
	if err == nil {
		err = emptied(old, cfg)
	}
	if err == nil {
		err = newFaults(old, cfg)
	}
	var restart []string
	if err == nil {
		restart, err = node.Reload(cfg)
	}
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			log.Error("reload refused, nothing has changed", "fault", strings.TrimSpace(line))
		}
		return old
	}
	log.Info("reloaded", "file", path)
	if len(restart) > 0 {
		log.Warn("these changed sections take effect at the next start", "sections", strings.Join(restart, ", "))
	}
	return cfg
}

// emptied refuses a file that no longer speaks of models: most editors and scripts empty a file before they write it,
// and a SIGHUP in that moment must not end every model.
func emptied(old, new *config.Config) error {
	if len(old.Models) == 0 || new.IsSet("models") {
		return nil
	}
	return config.Faults{new.Fault("models", "the file names no models any more: write models: [] to end them all, or reload once it is written in full")}
}

// newFaults holds a model file that is missing now against the edit, unless it was missing before it as well: a slip in
// a path must not end a model that serves, and a disk that is away must not forbid all other edits.
func newFaults(old, new *config.Config) error {
	known := map[string]bool{}
	for _, f := range old.CheckFiles() {
		known[f.Message] = true
	}
	var faults config.Faults
	for _, f := range new.CheckFiles() {
		if !known[f.Message] {
			faults = append(faults, f)
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return faults
}

// newLog writes what the configuration asks for to the error stream.
func newLog(c *cli, l config.Log) *slog.Logger {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	options := &slog.HandlerOptions{Level: levels[l.Level]} // checked by config; unknown would be info
	if c.quiet {
		options.Level = max(levels[l.Level], slog.LevelWarn)
	}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(c.Err, options))
	}
	return slog.New(slog.NewTextHandler(c.Err, options))
}

// takeStray leads what libraries print to the process's own log into log, until the returned function is called. The
// tailnet's does while it looks for a way out: lines of another form, which an owner can do nothing about.
func takeStray(log *slog.Logger) (release func()) {
	flags, out := stdlog.Flags(), stdlog.Writer()
	stdlog.SetFlags(0)
	stdlog.SetOutput(slog.NewLogLogger(log.Handler(), slog.LevelDebug).Writer())
	return func() {
		stdlog.SetOutput(out)
		stdlog.SetFlags(flags)
	}
}
