package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"viiwork/appliance"
	"viiwork/appliance/config"
	"viiwork/appliance/status"
)

const demoHelp = `Runs one node on this machine, with no configuration and no graphics card, on 127.0.0.1 only.

The engine is --engine, else $VIIWORK_ENGINE, else the Docker image viiwork-engine:cpu, else llama-server on PATH.
The model is --model, else $VIIWORK_DEMO_MODEL, else a tiny one with random weights: its text is random letters.
Ctrl-C stops the engine and removes all that the demo made.`

type demoOptions struct {
	model, engine, dir string
	port               int
}

func (c *cli) demoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "try it: one node on 127.0.0.1, without configuration, account or graphics card",
		Long:  demoHelp,
		Args:  exactly(0, takesNone),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.port < 1 || o.port > 65535 {
				return usageError("--port takes a number from 1 to 65535, not %d", o.port)
			}
			return c.demo(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.model, "model", "", "a GGUF `file` to serve")
	cmd.Flags().StringVar(&o.engine, "engine", "", "a llama-server `program` to serve it with")
	cmd.Flags().StringVar(&o.dir, "dir", "", "make the temporary `directory` in this one")
	cmd.Flags().IntVar(&o.port, "port", 8086, "listen on 127.0.0.1 at this port")
	return cmd
}

// demo makes a place for all that it needs, and removes it at the end.
func (c *cli) demo(ctx context.Context, o demoOptions) (err error) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := portFree(o.port); err != nil {
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
	cfg, err := c.demoConfig(ctx, o, dir)
	if err != nil {
		return err
	}
	return c.runDemo(ctx, cfg, signals, o.port)
}

// runDemo runs the node until a signal ends it, or its model will not come up.
func (c *cli) runDemo(ctx context.Context, cfg *config.Config, signals <-chan os.Signal, port int) error {
	node, err := appliance.New(cfg, appliance.Options{
		Version:     thisRelease().Version,
		StopEngines: true,
		Log:         newLog(c, config.Log{Level: "warn"}),
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	watched := make(chan error, 1)
	go func() {
		err := c.watchDemo(ctx, cfg, port)
		if err != nil {
			stop()
		}
		watched <- err
	}()
	err = served{node: node, signals: signals}.run(ctx)
	stop()
	if werr := <-watched; err == nil {
		err = werr
	}
	return err
}

// portFree asks before anything is made whether the port can be had.
func portFree(port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port %d on 127.0.0.1 is taken: choose another with --port", port)
	}
	if err != nil {
		return fmt.Errorf("listening on 127.0.0.1 port %d: %w: choose another with --port", port, err)
	}
	return l.Close()
}

// demoConfig finds an engine and a model and writes the configuration an owner would have written for them.
func (c *cli) demoConfig(ctx context.Context, o demoOptions, dir string) (*config.Config, error) {
	engine, err := c.findEngine(ctx, o.engine)
	if err != nil {
		return nil, err
	}
	c.note("engine: %s", engine.text)
	model, err := c.findModel(o.model, dir)
	if err != nil {
		return nil, err
	}
	c.note("model:  %s", model.text)
	quoted := func(s string) string { text, _ := json.Marshal(s); return string(text) } // a JSON string is a YAML string
	yaml := fmt.Sprintf(`node: {name: demo, state_dir: %s, drain: 2s}
api: {port: %d, host: 127.0.0.1, local: ""}
mesh: {network: lan, open: true, lan: {mdns: false}}
models:
  - name: %s
    engine: llamacpp
    path: %s
    context: %d
    parallel: 2
    llamacpp: {runner: %s, %s: %s, prompt_cache: 64MiB}
kv_share: {mode: "off"}
`, quoted(filepath.Join(dir, "state")), o.port, quoted(model.name), quoted(model.path), model.context, engine.runner, engine.key, quoted(engine.value))
	path := filepath.Join(dir, "viiwork.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		return nil, fmt.Errorf("writing the demo's configuration: %w: choose another place with --dir", err)
	}
	return config.Parse(path, []byte(yaml), nil) // nil: the environment of a real node must not bend the demo
}

// watchDemo tells how the model comes up, then what to try. An error means it will not.
func (c *cli) watchDemo(ctx context.Context, cfg *config.Config, port int) error {
	n := nodeAt(appliance.SocketPath(cfg.Node.StateDir), "viiwork demo")
	said := ""
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var s status.Node
		if err := n.get(ctx, "/v1/status", &s); err != nil || len(s.Models) == 0 || len(s.Models[0].Backends) == 0 {
			continue // the node itself is still coming up, and ends by itself if it cannot
		}
		backend := s.Models[0].Backends[0]
		switch backend.State {
		case "ready", "busy":
			c.sayReady(cfg, backend, port)
			return nil
		case "failed":
			return fmt.Errorf("the engine does not start: %s: try another with --engine or --model", indent(backend.Error, 2))
		}
		if word := stateWord(backend); word != said {
			said = word
			c.note("%s: %s", cfg.Models[0].Name, word)
		}
	}
}

func (c *cli) sayReady(cfg *config.Config, b status.Backend, port int) {
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	name := cfg.Models[0].Name
	body := fmt.Sprintf(`"model":"%s","max_tokens":60,"messages":[{"role":"user","content":"Hello"}]`, name)
	config := filepath.Join(filepath.Dir(cfg.Node.StateDir), "viiwork.yaml")
	fmt.Fprintf(c.Out, `
ready: %s serves "%s" on llama-server %s

In another terminal, an answer in one piece, and as a stream:

  curl %s/v1/chat/completions -H 'Content-Type: application/json' -d '{%s}'
  curl -N %s/v1/chat/completions -H 'Content-Type: application/json' -d '{"stream":true,%s}'

What it serves, and how it is:

  curl %s/v1/models
  %s status --config %s

Ctrl-C ends it and removes all it made.
`, base, name, b.Engine, base, body, base, body, base, calledAs(), inShell(config))
}

// calledAs is how this program is run from another terminal: by its name where that leads to it, else by its path.
func calledAs() string {
	own, err := os.Executable()
	if err != nil {
		return "viiwork"
	}
	onPath, err := exec.LookPath("viiwork")
	if err != nil {
		return inShell(own)
	}
	a, aErr := os.Stat(own)
	b, bErr := os.Stat(onPath)
	if aErr != nil || bErr != nil || !os.SameFile(a, b) {
		return inShell(own)
	}
	return "viiwork"
}

// inShell quotes a path that a shell would take apart.
func inShell(path string) string {
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
