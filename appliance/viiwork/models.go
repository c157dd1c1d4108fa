package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// modelList is what this verb needs of GET /v1/models: the models of the whole mesh.
type modelList struct {
	Data []listedModel `json:"data"`
}

type listedModel struct {
	ID      string `json:"id"`
	Context int    `json:"context_length"`
	Viiwork struct {
		AliasOf string      `json:"alias_of"` // "" = it is a model
		State   string      `json:"state"`
		Slots   *int        `json:"slots"` // nil = not known
		Free    *int        `json:"free"`
		Hosts   []modelHost `json:"hosts"`
	} `json:"viiwork"`
}

type modelHost struct {
	Node    string `json:"node"`
	State   string `json:"state"`
	Slots   *int   `json:"slots"`
	Free    *int   `json:"free"`
	Context int    `json:"context"`
	AgeMS   *int64 `json:"age_ms"` // nil = the node that was asked
}

func (c *cli) modelsCommand() *cobra.Command {
	const path = "/v1/models"
	cmd := viewCommand(c, view{
		use:   "models",
		short: "list this machine's models, and how many more requests each can take now",
		path:  path,
		all:   "list the models of all nodes, and who has them",
		mesh:  drawing(path, drawMeshModels),
	}, drawModels)
	cmd.AddCommand(c.pullCommand())
	cmd.AddCommand(c.modelsLsCommand(cmd))
	return cmd
}

// drawModels shows what the node that was asked runs itself.
func drawModels(list modelList, bold bool) *bytes.Buffer {
	out := new(bytes.Buffer)
	t := table{bold: bold, head: []string{"MODEL", "STATE", "FREE", "CONTEXT"}}
	for _, m := range list.Data {
		for _, h := range m.Viiwork.Hosts {
			if h.AgeMS == nil {
				t.add(m.title(), orDash(h.State), freeWord(h.Free, h.Slots), number(h.Context))
			}
		}
	}
	switch {
	case len(list.Data) == 0:
		out.WriteString("no models: list some under 'models' in the configuration\n")
	case len(t.rows) == 0:
		out.WriteString("no models on this machine: 'viiwork models --mesh' lists those of the others\n")
	default:
		t.draw(out)
	}
	return out
}

// drawMeshModels shows what can be asked by way of any node.
func drawMeshModels(list modelList, bold bool) *bytes.Buffer {
	out := new(bytes.Buffer)
	if len(list.Data) == 0 {
		out.WriteString("no models in the mesh: list some under 'models' in a node's configuration\n")
		return out
	}
	t := table{bold: bold, head: []string{"MODEL", "STATE", "FREE", "CONTEXT", "HOSTS"}}
	for _, m := range list.Data {
		var hosts []string
		for _, h := range m.Viiwork.Hosts {
			hosts = append(hosts, hostWord(h))
		}
		t.add(m.title(), orDash(m.Viiwork.State), freeWord(m.Viiwork.Free, m.Viiwork.Slots), number(m.Context), orDash(strings.Join(hosts, ", ")))
	}
	t.draw(out)
	return out
}

// title tells an alias from a model.
func (m listedModel) title() string {
	if m.Viiwork.AliasOf == "" {
		return m.ID
	}
	return m.ID + " (alias of " + m.Viiwork.AliasOf + ")"
}

// hostWord is a host with its free slots, or with why it has none to give.
func hostWord(h modelHost) string {
	if h.State != "ready" && h.State != "busy" {
		return h.Node + " " + orDash(h.State)
	}
	return h.Node + " " + freeWord(h.Free, h.Slots)
}

func freeWord(free, slots *int) string {
	if free == nil || slots == nil {
		return "-"
	}
	return fmt.Sprintf("%d/%d", *free, *slots)
}
