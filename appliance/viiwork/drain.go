package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
)

func (c *cli) drainCommand() *cobra.Command {
	var off bool
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "grant no more seats and finish what runs (--off: grant them again)",
		Long:  "Draining, the node answers new requests with 503 and finishes those that run. It stays up: stop it, or go on with --off.",
		Args:  exactly(0, takesNone),
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := c.node()
			if err != nil {
				return err
			}
			body, err := n.call(cmd.Context(), http.MethodPost, "/api/drain", map[string]bool{"off": off})
			if err != nil {
				return err
			}
			defer body.Close()
			var answer struct {
				State string `json:"state"`
			}
			if err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(&answer); err != nil {
				return fmt.Errorf("reading the node's answer: %w", err)
			}
			if !c.quiet {
				fmt.Fprintf(c.Out, "the node is %s\n", printable(answer.State))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&off, "off", false, "grant seats again")
	return cmd
}
