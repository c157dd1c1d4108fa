package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"viiwork/appliance/status"
)

// drawCluster is the page of viiwork status --mesh: the mesh as the node that was asked sees it.
func drawCluster(all status.Cluster, bold bool) *bytes.Buffer {
	out := new(bytes.Buffer)
	members := table{bold: bold, head: []string{"NODE", "STATE", "VERSION", "ADDRESS", "HEARD"}}
	for i, m := range all.Members {
		heard := heardWord(m.AgeMS)
		switch {
		case i == 0:
			heard = "this node"
		case m.State == "failed" || m.State == "left": // what it once said is forgotten
			heard = "-"
		}
		members.add(m.Name, m.State, orDash(m.Version), orDash(m.Addr), heard)
	}
	members.draw(out)
	out.WriteByte('\n')
	if len(all.Models) == 0 {
		out.WriteString("no models in the mesh: list some under 'models' in a node's configuration\n")
	} else {
		models := table{bold: bold, head: []string{"MODEL", "HOSTS"}}
		for _, m := range all.Models {
			models.add(m.Name, strings.Join(m.Hosts, ", "))
		}
		models.draw(out)
	}
	if r := all.Rollout; r != nil && (r.Stage != "ended" || behind(all)) {
		out.WriteByte('\n')
		drawRollout(out, *r, bold)
	}
	drawWarnings(out, all.Warnings, bold)
	return out
}

// behind tells whether somebody does not have the version that was rolled out, and nobody has seen to it since.
func behind(all status.Cluster) bool {
	has := map[string]string{}
	for _, m := range all.Members {
		has[m.Name] = m.Version
	}
	return slices.ContainsFunc(all.Rollout.Members, func(m status.RolloutMember) bool {
		return m.State != "done" && has[m.Name] != all.Rollout.Version
	})
}

// heardWord is how long ago a node spoke; a negative age means never.
func heardWord(ms int64) string {
	switch age := time.Duration(ms) * time.Millisecond; {
	case ms < 0:
		return "never"
	case age < time.Minute:
		return fmt.Sprintf("%.1f s ago", age.Seconds())
	default:
		return age.Truncate(time.Second).String() + " ago"
	}
}
