package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"viiwork/appliance/config"
)

// portsFree asks before anything is made whether the ports from first on can be had.
func portsFree(first, n int) error {
	for port := first; port < first+n; port++ {
		l, err := net.Listen("tcp", loopback(port))
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("port %d on 127.0.0.1 is taken: choose another with --port", port)
		}
		if err != nil {
			return fmt.Errorf("listening on 127.0.0.1 port %d: %w: choose another with --port", port, err)
		}
		l.Close()
	}
	return nil
}

// gossipPorts picks n ports that are free for TCP and UDP, from the usual one on, leaving out those of the API.
func gossipPorts(n, firstAPI int) (ports []int, err error) {
	for port := 7946; len(ports) < n && port < 65536; port++ {
		if port >= firstAPI && port < firstAPI+n {
			continue
		}
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue
		}
		l.Close()
		p, err := net.ListenPacket("udp", loopback(port))
		if err != nil {
			continue
		}
		p.Close()
		ports = append(ports, port)
	}
	if len(ports) < n {
		return nil, errors.New("no free ports for gossip on 127.0.0.1: end what holds them, or use --network tailnet")
	}
	return ports, nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// furnishDemo finds an engine and a model and makes the nodes' folders. It starts nothing that outlives it.
func (c *cli) furnishDemo(ctx context.Context, o demoOptions, dir string) (*demoMesh, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	engine, err := c.findEngine(ctx, o.engine)
	if err != nil {
		return nil, err
	}
	c.note("engine: %s", engine.text)
	model, err := c.findModel(o.model, dir)
	if err != nil {
		return nil, err
	}
	c.note("model:  %s", model.text)
	m := &demoMesh{cli: c, network: o.network, engine: engine, model: model, program: program, deaths: make(chan *demoNode, o.nodes)}
	if o.network == "lan" {
		if m.gossip, err = gossipPorts(o.nodes, o.port); err != nil {
			return nil, err
		}
	}
	for i := range o.nodes {
		n := strconv.Itoa(i + 1)
		d := newDemoNode("demo-"+n, filepath.Join(dir, n), o.port+i)
		if err := os.Mkdir(d.dir, 0o700); err != nil {
			return nil, fmt.Errorf("making a directory for %s: %w: choose another place with --dir", d.name, err)
		}
		m.nodes = append(m.nodes, d)
	}
	m.environ = demoEnviron(c.Environ)
	secret := make([]byte, 32)
	rand.Read(secret)
	m.secret = base64.StdEncoding.EncodeToString(secret)
	return m, nil
}

// demoEnviron is what the nodes see: nothing that is meant for a real node or its tailnet may bend the demo.
func demoEnviron(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool {
		return strings.HasPrefix(e, "VIIWORK_") || strings.HasPrefix(e, "TS_")
	})
}

// configure writes the configuration that an owner would have written for node i, and the mesh's secret beside it: so any
// command that is given the one, in any terminal, knows the other.
func (m *demoMesh) configure(i int) error {
	d := m.nodes[i]
	yaml := fmt.Sprintf("node: {name: %s, state_dir: state, drain: 2s}\n", d.name) + m.place(i) + "kv_share: {store: 1GiB}\nmodels:\n"
	for _, name := range m.serves(i) {
		yaml += fmt.Sprintf(`  - name: %s
    path: %s
    context: %d
    parallel: 2
    llamacpp: {runner: %s, %s: %s, prompt_cache: 64MiB, threads: %d}
`, name, quoted(m.model.path), m.model.context, m.engine.runner, m.engine.key, quoted(m.engine.value), max(1, runtime.NumCPU()/len(m.nodes)))
	}
	env := "VIIWORK_MESH_SECRET=" + m.secret + "\n"
	for path, text := range map[string]string{d.config(): yaml, filepath.Join(d.dir, config.BesideName): env} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return fmt.Errorf("writing the configuration of %s: %w: choose another place with --dir", d.name, err)
		}
	}
	return nil
}

// place is where node i answers and how it meets the others.
func (m *demoMesh) place(i int) string {
	if m.network == "tailnet" {
		return fmt.Sprintf("api: {port: 8086, local: %s}\nmesh: {network: tailnet, tailnet: {control_url: %s}}\n",
			quoted(loopback(m.nodes[i].port)), quoted(m.control))
	}
	var seeds []string
	for j, port := range m.gossip {
		if j != i {
			seeds = append(seeds, quoted(loopback(port)))
		}
	}
	return fmt.Sprintf("api: {port: %d, host: 127.0.0.1, local: \"\"}\nmesh: {network: lan, bind_port: %d, seeds: [%s], lan: {mdns: false}}\n",
		m.nodes[i].port, m.gossip[i], strings.Join(seeds, ", "))
}

// quoted makes a YAML string: a JSON string is one.
func quoted(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}
