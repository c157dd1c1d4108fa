package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
)

const drainHelp = `Draining, the node begins no new request on its own engines and finishes those that run. What comes in by it still goes to
other nodes; where none has the model it is answered with 503. The node stays up: stop it, or go on with --off.`

func (c *cli) drainCommand() *cobra.Command {
	var off bool
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "grant no more seats and finish what runs (--off: grant them again)",
		Long:  drainHelp,
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
