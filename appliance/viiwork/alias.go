package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"viiwork/appliance/status"
)

const aliasesRoute = "/api/aliases"

const aliasHelp = `An alias is a second name of a model, in the whole mesh: 'viiwork alias set coder Qwen3.8-27B' on any machine, and clients
may ask any machine for "coder". Point it at another model, and they need no change.

A model's own name comes first: an alias that is called like a model is not in use.`

func (c *cli) aliasCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "alias",
		Short: "names for models that hold in the whole mesh: ls, set, rm, revert",
		Long:  aliasHelp,
		Args:  cobra.ArbitraryArgs,
		RunE:  needVerb,
	}
	cmd.AddCommand(c.aliasListCommand(), c.aliasSetCommand(), c.aliasRemoveCommand(), c.aliasRevertCommand())
	return cmd
}

func (c *cli) aliasListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "list the aliases, and what they lead to",
		Args:  exactly(0, takesNone),
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := c.node()
			if err != nil {
				return err
			}
			if asJSON {
				return c.relay(cmd.Context(), n, aliasesRoute)
			}
			page, err := drawing(aliasesRoute, drawAliases)(cmd.Context(), n, c.bold())
			if err != nil {
				return err
			}
			return c.print(page)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, as GET "+aliasesRoute+" answers")
	return cmd
}

func drawAliases(list []status.Alias, bold bool) *bytes.Buffer {
	out := new(bytes.Buffer)
	if len(list) == 0 {
		out.WriteString("no aliases: make one with 'viiwork alias set NAME MODEL'\n")
		return out
	}
	t := table{bold: bold, head: []string{"ALIAS", "MODEL", "BEFORE", "STATE", "CHANGES", "BY", "AT"}}
	for _, a := range list {
		t.add(a.Name, a.Target, orDash(a.Prev), a.State, strconv.FormatUint(a.Version, 10), a.Node, a.Time.UTC().Format(time.DateTime))
	}
	t.draw(out)
	return out
}

func (c *cli) aliasSetCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "set NAME MODEL",
		Short:             "let a name lead to a model, everywhere",
		Args:              exactly(2, "it takes a name and a model"),
		ValidArgsFunction: c.completeNames(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]string{"name": args[0], "target": args[1]}
			return c.changeAlias(cmd.Context(), http.MethodPost, aliasesRoute, body)
		},
	}
}

func (c *cli) aliasRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "rm NAME",
		Short:             "remove an alias, everywhere ('revert' brings it back)",
		Args:              exactly(1, "it takes the name of an alias"),
		ValidArgsFunction: c.completeNames(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.changeAlias(cmd.Context(), http.MethodDelete, aliasPath(args[0]), nil)
		},
	}
}

func (c *cli) aliasRevertCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "revert NAME",
		Short:             "let an alias lead where it led before its last change or its removal",
		Args:              exactly(1, "it takes the name of an alias"),
		ValidArgsFunction: c.completeNames(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.changeAlias(cmd.Context(), http.MethodPost, aliasPath(args[0])+"/revert", nil)
		},
	}
}

func aliasPath(name string) string { return aliasesRoute + "/" + url.PathEscape(name) }

// changeAlias asks the node for a change and says what it did.
func (c *cli) changeAlias(ctx context.Context, method, path string, body any) error {
	n, err := c.node()
	if err != nil {
		return err
	}
	answer, err := n.call(ctx, method, path, body)
	if err != nil {
		return aliasRefusal(err)
	}
	defer answer.Close()
	var a status.Alias
	if err := json.NewDecoder(io.LimitReader(answer, maxAnswer)).Decode(&a); err != nil {
		return fmt.Errorf("reading the node's answer: %w", err)
	}
	if c.quiet {
		return nil
	}
	if _, err := fmt.Fprintln(c.Out, printable(changed(a))); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// changed is what has become of an alias, and what it was before.
func changed(a status.Alias) string {
	before := "nothing before"
	if a.Prev != "" {
		before = a.Prev + " before"
	}
	switch a.State {
	case "removed":
		return a.Name + " is removed (it led to " + a.Target + ")"
	case "dangling":
		return a.Name + " leads to " + a.Target + " (" + before + "), which no node has now"
	}
	return a.Name + " leads to " + a.Target + " (" + before + ")"
}

// aliasRefusal gives the exit code to a node's no.
func aliasRefusal(err error) error {
	var no *refused
	if !errors.As(err, &no) {
		return err
	}
	switch no.status {
	case http.StatusBadRequest:
		return coded{exitUsage, err}
	case http.StatusForbidden, http.StatusConflict:
		return coded{exitRefused, err}
	}
	return err
}

// completeNames offers aliases for the first argument and, with models, models for the second, as the running node has
// them.
func (c *cli) completeNames(models bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		n, err := c.node()
		if err != nil || len(args) > 1 || len(args) == 1 && !models {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		var names []string
		if len(args) == 0 {
			var list []status.Alias
			_ = n.get(ctx, aliasesRoute, &list) // without an answer there is nothing to offer
			for _, a := range list {
				names = append(names, a.Name)
			}
		} else {
			var list modelList
			_ = n.get(ctx, "/v1/models", &list)
			for _, m := range list.Data {
				if m.Viiwork.AliasOf == "" {
					names = append(names, m.ID)
				}
			}
		}
		return offered(names, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeWithin is how long a person waits for a word after the tab key.
const completeWithin = 2 * time.Second

// offered leaves out what a shell could take for more than a word.
func offered(names []string, begun string) (fit []string) {
	for _, name := range names {
		if strings.HasPrefix(name, begun) && !strings.ContainsAny(name, "\t\n") && printable(name) == name {
			fit = append(fit, name)
		}
	}
	return fit
}
