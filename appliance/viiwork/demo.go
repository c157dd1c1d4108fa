package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

const demoHelp = `Runs a whole mesh on this machine, with no configuration, account or graphics card, on 127.0.0.1 only: nodes in
processes of their own that find each other and answer for each other. All serve "demo"; the last one alone serves "solo".

--network tailnet makes each node a device of its own on a tailnet that lives in this program; lan uses plain ports.
The engine is --engine, else $VIIWORK_ENGINE, else the Docker image viiwork-engine:cpu, else llama-server on PATH.
The model is --model, else $VIIWORK_DEMO_MODEL, else a tiny one with random weights: its text is random letters.
Ctrl-C ends the nodes and their engines and removes all that the demo made; a second Ctrl-C does not wait for answers.`

type demoOptions struct {
	nodes                       int
	network, model, engine, dir string
	port                        int
}

// maxDemoNodes is far above what anyone needs to see it work, and below what would bring a machine down.
const maxDemoNodes = 16

func (o demoOptions) check() error {
	switch {
	case o.nodes < 1 || o.nodes > maxDemoNodes:
		return usageError("--nodes takes a number from 1 to %d, not %d", maxDemoNodes, o.nodes)
	case o.network != "tailnet" && o.network != "lan":
		return usageError("--network takes tailnet or lan, not %q", o.network)
	case o.port < 1 || o.port > 65535:
		return usageError("--port takes a number from 1 to 65535, not %d", o.port)
	case o.port+o.nodes-1 > 65535:
		return usageError("%d nodes need as many ports, and there are none above 65535: choose a lower --port", o.nodes)
	}
	return nil
}

func (c *cli) demoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "try it: a mesh of nodes on 127.0.0.1, without configuration, account or graphics card",
		Long:  demoHelp,
		Args:  exactly(0, takesNone),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return c.demo(cmd.Context(), o)
		},
	}
	cmd.Flags().IntVar(&o.nodes, "nodes", 3, "run so many nodes")
	cmd.Flags().StringVar(&o.network, "network", "tailnet", "let them meet on `tailnet|lan`")
	cmd.Flags().StringVar(&o.model, "model", "", "a GGUF `file` to serve")
	cmd.Flags().StringVar(&o.engine, "engine", "", "a llama-server `program` to serve it with")
	cmd.Flags().StringVar(&o.dir, "dir", "", "make the temporary `directory` in this one")
	cmd.Flags().IntVar(&o.port, "port", 8086, "the first node listens on 127.0.0.1 at this port, the others at those after it")
	return cmd
}

// demo makes a place for all that it needs, and removes it at the end.
func (c *cli) demo(ctx context.Context, o demoOptions) (err error) {
	ctx, hurry, done := obeySignals(ctx)
	defer done()
	if err := portsFree(o.port, o.nodes); err != nil {
		return err
	}
	made, err := os.MkdirTemp(o.dir, "viiwork-demo-")
	if err != nil {
		return fmt.Errorf("making a directory for the demo: %w: choose another place with --dir", err)
	}
	defer func() {
		switch rerr := os.RemoveAll(made); {
		case err == nil && rerr != nil:
			err = fmt.Errorf("removing what the demo made: %w: remove %s", rerr, made)
		case err == nil:
			c.note("stopped; nothing is left behind")
		}
	}()
	dir, err := filepath.Abs(made)
	if err != nil {
		return fmt.Errorf("finding the demo's directory: %w: choose another place with --dir", err)
	}
	mesh, err := c.furnishDemo(ctx, o, dir)
	if err == nil {
		err = mesh.run(ctx, hurry)
	} else if ctx.Err() != nil {
		return nil // stopped before there was anything to stop
	}
	return err
}

// obeySignals ends the returned context at the first signal and closes hurry at the second. None meets the default
// handler, which would end this process between two acts; that goes for the one that says nobody reads our output.
func obeySignals(ctx context.Context) (_ context.Context, hurry <-chan struct{}, done func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	ctx, stop := context.WithCancel(ctx)
	second, over := make(chan struct{}), make(chan struct{})
	go func() {
		for heard := 1; ; heard++ {
			select {
			case <-signals:
			case <-over:
				return
			}
			switch heard {
			case 1:
				stop()
			case 2:
				close(second)
			}
		}
	}()
	return ctx, second, func() {
		signal.Stop(signals)
		close(over)
		stop()
	}
}
