package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"viiwork/appliance/status"
)

// sayReady prints what there is and what to try.
func (m *demoMesh) sayReady(ctx context.Context) {
	var s strings.Builder
	first, last := m.nodes[0], m.nodes[len(m.nodes)-1]
	fmt.Fprintf(&s, "\nready: %s on llama-server %s\n\n", m.people(), m.engineVersion(ctx))
	for i, d := range m.nodes {
		fmt.Fprintf(&s, "  %-8s %s  serves %s\n", d.name, d.url(), strings.Join(m.serves(i), ", "))
	}
	body := fmt.Sprintf(`"model":"%s","max_tokens":60,"messages":[{"role":"user","content":"Hello"}]`, onOne)
	fmt.Fprintf(&s, "\nIn a browser each of these addresses shows the whole mesh; on a terminal:\n\n  %s top --mesh --config %s\n", calledAs(), inShell(first.config()))
	fmt.Fprintf(&s, `
In another terminal, an answer in one piece, and as a stream. %s runs "%s", and it is asked through %s: the headers
X-Viiwork-Node and X-Viiwork-Origin say so.

  curl -i %[4]s/v1/chat/completions -H 'Content-Type: application/json' -d '{%[5]s}'
  curl -iN %[4]s/v1/chat/completions -H 'Content-Type: application/json' -d '{"stream":true,%[5]s}'

What there is, and how it is:

  curl %[4]s/v1/models
  %[6]s status --config %[7]s
  %[6]s status --mesh --config %[7]s
`, last.name, onOne, first.name, first.url(), body, calledAs(), inShell(first.config()))
	if len(m.nodes) > 1 {
		fmt.Fprintf(&s, "\nA conversation that moves takes its cache along, which takes half a minute to measure:\n\n  %s bench kv --entry %s --tokens 1000 --pairs 2\n", calledAs(), first.url())
		victim := m.nodes[1]
		fmt.Fprintf(&s, "\nKilling a node is fine, \"%s\" is answered by the others:\n\n  kill -9 %d  # %s\n", everywhere, victim.cmd.Process.Pid, victim.name)
	}
	s.WriteString("\nCtrl-C ends it and removes all it made.\n")
	fmt.Fprint(m.Out, s.String())
}

// people says who is there.
func (m *demoMesh) people() string {
	switch {
	case len(m.nodes) == 1:
		return "one node"
	case m.network == "tailnet":
		return fmt.Sprintf("%d nodes, each a device of its own on a tailnet of this machine,", len(m.nodes))
	}
	return fmt.Sprintf("%d nodes, a mesh on 127.0.0.1,", len(m.nodes))
}

func (m *demoMesh) engineVersion(ctx context.Context) string {
	var s status.Node
	if m.nodes[0].node.get(ctx, "/v1/status", &s) != nil || len(s.Models) == 0 || len(s.Models[0].Backends) == 0 {
		return "(version unknown)"
	}
	return printable(s.Models[0].Backends[0].Engine)
}

// calledAs is how this program is run from another terminal: by its name where that leads to it, else by its path.
func calledAs() string {
	own, err := os.Executable()
	if err != nil {
		return "viiwork"
	}
	onPath, err := exec.LookPath("viiwork")
	if err != nil {
		return inShell(own)
	}
	a, aErr := os.Stat(own)
	b, bErr := os.Stat(onPath)
	if aErr != nil || bErr != nil || !os.SameFile(a, b) {
		return inShell(own)
	}
	return "viiwork"
}

// inShell quotes a path that a shell would take apart.
func inShell(path string) string {
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
