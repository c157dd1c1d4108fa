package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"viiwork/appliance/status"
)

func (c *cli) statusCommand() *cobra.Command {
	return viewCommand(c, view{
		use:   "status",
		short: "show the running node: its models, their engines, what is wrong",
		path:  "/v1/status",
		all:   "show all nodes, and which models they have",
		mesh:  drawing(meshPath, drawCluster),
	}, drawStatus)
}

// drawStatus is the page of viiwork status.
func drawStatus(s status.Node, bold bool) *bytes.Buffer {
	out := new(bytes.Buffer)
	fmt.Fprintf(out, "%s is %s (viiwork %s, network %s)\n", emphasis(s.Node, bold), s.State, s.Version, s.Network)
	t := table{bold: bold, head: []string{"MODEL", "BACKEND", "STATE", "FREE", "WAITING", "CONTEXT", "GPUS", "PROCESS", "ENGINE"}}
	var broken []string
	for _, m := range s.Models {
		for _, b := range m.Backends {
			t.add(m.Name, b.ID, stateWord(b), slotsWord(b.Slots), fmt.Sprint(m.Waiting), number(m.Context), gpusWord(b.GPUs), orDash(shortID(b.Process)), orDash(b.Engine))
			if b.Error != "" {
				broken = append(broken, fmt.Sprintf("%s: %s", b.ID, indent(b.Error, 2)))
			}
		}
	}
	if len(s.Models) == 0 {
		fmt.Fprintln(out, "\nno models: list some under 'models' in the configuration")
	} else {
		fmt.Fprintln(out)
		t.draw(out)
	}
	if len(broken) > 0 {
		fmt.Fprintf(out, "\n%s\n", strings.Join(broken, "\n"))
	}
	drawCards(out, s.GPUs, bold)
	drawWarnings(out, s.Warnings, bold)
	return out
}

func drawWarnings(out *bytes.Buffer, warnings []status.Warning, bold bool) {
	for i, w := range warnings {
		if i == 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "%s %s", emphasis("warning:", bold), printable(w.Text))
		if w.Fix != "" {
			fmt.Fprintf(out, ": %s", printable(w.Fix))
		}
		fmt.Fprintln(out)
	}
}

// stateWord is a backend's state with what is known of its progress and its past.
func stateWord(b status.Backend) string {
	word := b.State
	if b.Progress != nil {
		word += fmt.Sprintf(" %.0f%%", *b.Progress*100)
	}
	if c := b.Change; c != nil {
		word += ", " + changeWord(*c)
	}
	if b.Restarts > 0 {
		word += fmt.Sprintf(" (%s)", count(b.Restarts, "restart"))
	}
	return word
}

// changeWord tells of the other engine that a backend has.
func changeWord(c status.Change) string {
	word := "new one " + c.State
	if c.State == "draining" {
		word = "old one " + c.State
	}
	if c.Progress != nil {
		word += fmt.Sprintf(" %.0f%%", *c.Progress*100)
	}
	return word
}

func slotsWord(slots []status.Slot) string {
	free := 0
	for _, s := range slots {
		if s.State == "free" {
			free++
		}
	}
	return fmt.Sprintf("%d/%d", free, len(slots))
}

func gpusWord(gpus []int) string {
	if len(gpus) == 0 {
		return "-"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(gpus), " ", ","), "[]")
}

// shortID cuts a container id to the twelve characters that Docker shows.
func shortID(process string) string {
	if len(process) == 64 && strings.Trim(process, "0123456789abcdef") == "" {
		return process[:12]
	}
	return process
}

// number is a figure that may be unknown.
func number(n int) string {
	if n <= 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
