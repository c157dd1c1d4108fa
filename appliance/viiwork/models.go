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
	return viewCommand(c, view{
		use:   "models",
		short: "list the models that can be asked, and how many more requests each can take now",
		path:  "/v1/models",
		all:   "list the models of all nodes",
	}, drawModels)
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
