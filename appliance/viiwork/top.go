package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"viiwork/ui/top"
)

const topHelp = `Shows the running node as it is now: its engines and their slots, its graphics cards, what is in flight; with --mesh
all machines and models. Keys: ? lists them, q ends. Without a terminal it prints the same as text, again and
again; --once prints it once.`

func (c *cli) topCommand() *cobra.Command {
	cfg := top.Config{}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "watch the running node, or all of them: slots, requests, graphics cards, logs",
		Long:  topHelp,
		Args:  exactly(0, takesNone),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.Interval < leastInterval {
				return usageError("--interval is %v at least", leastInterval)
			}
			n, err := c.node()
			if err != nil {
				return err
			}
			cfg.Get, cfg.Logs = n.getForTop, n.followLog
			cfg.In, cfg.Out, cfg.Environ = c.In, c.Out, c.Environ
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return top.Run(ctx, cfg)
		},
	}
	cmd.Flags().BoolVar(&cfg.Mesh, "mesh", false, "begin with all machines")
	cmd.Flags().BoolVar(&cfg.Once, "once", false, "print one picture and end")
	cmd.Flags().DurationVar(&cfg.Interval, "interval", top.DefaultInterval, "`time` from one picture to the next")
	return cmd
}

// leastInterval keeps a typing error from making the node answer top and nothing else.
const leastInterval = 200 * time.Millisecond

// getForTop is get, with the error by which top knows that there is no node to ask.
func (n *node) getForTop(ctx context.Context, path string, into any) error {
	err := n.get(ctx, path, into)
	var code coded
	if errors.As(err, &code) && code.code == exitNotRunning {
		return coded{exitNotRunning, gone{err}}
	}
	return err
}

// gone is top.ErrGone in the words of the command line.
type gone struct{ error }

func (gone) Is(target error) bool { return target == top.ErrGone }

func (n *node) followLog(ctx context.Context, model string) (io.ReadCloser, error) {
	query := url.Values{"model": {model}, "tail": {"200"}, "follow": {"1"}}
	return n.call(ctx, http.MethodGet, "/api/logs?"+query.Encode(), nil)
}
