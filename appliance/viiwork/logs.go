package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"viiwork/appliance/status"
)

const logsHelp = `Prints what a model's engines wrote; without MODEL, what all engines wrote. From several
engines each line begins with its engine's id, such as m#0.
What the node itself writes goes to where 'viiwork serve' was started: a terminal, or 'journalctl -u viiwork'.`

func (c *cli) logsCommand() *cobra.Command {
	var follow bool
	var tail int
	cmd := &cobra.Command{
		Use:   "logs [MODEL]",
		Short: "print what a model's engines wrote",
		Long:  logsHelp,
		Args:  atMost(1, "it takes one model"),

		ValidArgsFunction: c.completeModels,
		RunE: func(cmd *cobra.Command, args []string) error {
			if tail < 0 {
				return usageError("-n takes a number of lines, 0 for all")
			}
			n, err := c.node()
			if err != nil {
				return err
			}
			query := url.Values{}
			if len(args) == 1 {
				query.Set("model", args[0])
			}
			if tail > 0 {
				query.Set("tail", strconv.Itoa(tail))
			}
			if follow {
				query.Set("follow", "1")
			}
			body, err := n.call(cmd.Context(), http.MethodGet, "/api/logs?"+query.Encode(), nil)
			if err != nil {
				return err
			}
			defer body.Close()
			return c.copyLines(body)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes, until Ctrl-C")
	cmd.Flags().IntVarP(&tail, "lines", "n", 100, "start with the last `N` lines, 0 for all")
	return cmd
}

// completeModels offers this machine's models, as the running node has them.
func (c *cli) completeModels(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	n, err := c.node()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	var s status.Node
	_ = n.get(ctx, "/v1/status", &s) // without an answer there is nothing to offer
	var names []string
	for _, m := range s.Models {
		names = append(names, m.Name)
	}
	return offered(names, begun), cobra.ShellCompDirectiveNoFileComp
}

// copyLines prints line by line: an engine's output must not drive the terminal, and following, each line is shown as
// it comes. An endless line is printed in pieces.
func (c *cli) copyLines(from io.Reader) error {
	lines := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			text := printable(string(bytes.TrimRight(line, "\r\n")))
			if _, err := fmt.Fprintln(c.Out, text); err != nil {
				return fmt.Errorf("printing the log: %w", err)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("reading the log: the node went away: %w", err)
		}
	}
}
