package main

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"
)

// modelList is what this verb needs of GET /v1/models.
type modelList struct {
	Data []struct {
		ID      string `json:"id"`
		Context int    `json:"context_length"`
		Viiwork struct {
			State string `json:"state"`
			Slots *int   `json:"slots"` // nil = not known yet
			Free  *int   `json:"free"`
		} `json:"viiwork"`
	} `json:"data"`
}

func (c *cli) modelsCommand() *cobra.Command {
	var asJSON, mesh bool
	cmd := &cobra.Command{
		Use:   "models",
		Short: "list the models that can be asked, and how many more requests each can take now",
		Args:  exactly(0, takesNone),
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := c.node()
			if err != nil {
				return err
			}
			c.noteOneNode(mesh)
			if asJSON {
				return c.relay(cmd.Context(), n, "/v1/models")
			}
			var list modelList
			if err := n.get(cmd.Context(), "/v1/models", &list); err != nil {
				return err
			}
			return c.print(drawModels(list, c.bold()))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, as GET /v1/models answers")
	cmd.Flags().BoolVar(&mesh, "mesh", false, "list the models of all nodes (this version runs one)")
	return cmd
}

func drawModels(list modelList, bold bool) *bytes.Buffer {
	out := new(bytes.Buffer)
	if len(list.Data) == 0 {
		out.WriteString("no models: list some under 'models' in the configuration\n")
		return out
	}
	t := table{bold: bold, head: []string{"MODEL", "STATE", "FREE", "CONTEXT"}}
	for _, m := range list.Data {
		free := "-"
		if m.Viiwork.Free != nil && m.Viiwork.Slots != nil {
			free = fmt.Sprintf("%d/%d", *m.Viiwork.Free, *m.Viiwork.Slots)
		}
		t.add(m.ID, orDash(m.Viiwork.State), free, number(m.Context))
	}
	t.draw(out)
	return out
}
