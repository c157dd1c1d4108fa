package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"viiwork/appliance/config"
	"viiwork/appliance/setup/accept"
	"viiwork/engine/gguf"
)

const acceptHelp = `Proves that this machine does in its mesh what it was set up for: other nodes reach it and list it; each of its models is ready,
answers, calls tools, answers what enters at other nodes, spreads a crowd over the machines, is found by an alias, and lets go
of a request whose client left.

It sends small requests to this machine's models, which take slots like anyone's. What cannot be checked for want of another
node is skipped. Exit 1 if a check fails.`

func (c *cli) acceptCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "accept",
		Short: "prove that this machine does its part in the mesh; exit 1 if a check fails",
		Long:  acceptHelp,
		Args:  exactly(0, takesNone),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, _, err := c.load()
			if err != nil && cfg == nil {
				return err
			}
			return c.accept(cmd.Context(), cfg, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// accept runs the checks against the running node of cfg, and prints each as it comes.
func (c *cli) accept(ctx context.Context, cfg *config.Config, asJSON bool) error {
	n := c.nodeOf(cfg)
	if _, err := n.read(ctx, "/healthz"); err != nil {
		return err
	}
	checks := accept.Config{Node: cfg.Node.Name, Models: acceptModels(cfg), Joined: len(cfg.Mesh.Seeds) > 0, Do: n.do,
		Note: func(text string) { c.note("%s", printable(text)) }}
	if !asJSON {
		checks.Tell = c.printCheck
	}
	results := accept.Run(ctx, checks)
	if asJSON {
		report := struct {
			OK     bool            `json:"ok"`
			Checks []accept.Result `json:"checks"`
		}{accept.Passed(results), results}
		if err := c.printJSON(report); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("stopped before the last check: %w", err)
	}
	if !accept.Passed(results) {
		return errSaid
	}
	return nil
}

// do sends a request to the node.
func (n *node) do(req *http.Request) (*http.Response, error) {
	resp, err := n.http.Do(req)
	if err != nil {
		return nil, n.unreachable(err)
	}
	return resp, nil
}

// acceptModels says what each configured model can be asked.
func acceptModels(cfg *config.Config) []accept.Model {
	var models []accept.Model
	for _, m := range cfg.Models {
		kind := accept.Chat
		file, err := gguf.Read(m.Path)
		switch {
		case err == nil && file.Rerank, slices.Contains(m.Args, "--reranking"):
			kind = accept.Rerank
		case err == nil && file.Embedding, slices.Contains(m.Args, "--embeddings"):
			kind = accept.Embedding
		}
		templates := slices.ContainsFunc(m.Args, func(arg string) bool { return strings.HasPrefix(arg, "--chat-template") })
		noTools := err == nil && file.Architecture != "" && !file.Tools && !templates
		models = append(models, accept.Model{Name: m.Name, Kind: kind, NoTools: noTools, Startup: m.StartupTimeout})
	}
	return models
}

func (c *cli) printCheck(r accept.Result) {
	if c.quiet && r.Outcome != accept.Fail {
		return
	}
	word := string(r.Outcome)
	if r.Outcome == accept.Fail {
		word = emphasis(word, c.bold())
	}
	_ = c.print(bytes.NewBufferString(fmt.Sprintf("%s  %-18s %6.1f s  %s\n", word, printable(r.Check), r.Seconds, printable(r.Detail))))
}
