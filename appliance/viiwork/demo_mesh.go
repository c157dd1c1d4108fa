package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"viiwork/appliance/status"
	"viiwork/tsnode/localcontrol"
)

// demoMesh is the nodes of the demo and what they share. All but the nodes' own goroutines runs on one.
type demoMesh struct {
	*cli
	network string
	engine  demoEngine
	model   demoModel
	program string // this one
	environ []string
	secret  string // of the mesh
	nodes   []*demoNode
	control string // tailnet: URL of the control server
	gossip  []int  // lan: port of each node
	deaths  chan *demoNode
}

// Names of the models. The second is served by the last node only, so that the others have to forward.
const (
	everywhere = "demo"
	onOne      = "solo"
)

func (m *demoMesh) serves(i int) []string {
	if i == len(m.nodes)-1 {
		return []string{everywhere, onOne}
	}
	return []string{everywhere}
}

// run starts the nodes, tells how they come up and what to try, and ends them when ctx ends. Hurry cuts the end short.
func (m *demoMesh) run(ctx context.Context, hurry <-chan struct{}) (err error) {
	if m.network == "tailnet" {
		control, err := localcontrol.Start(localcontrol.Config{})
		if err != nil {
			return err
		}
		defer control.Close()
		m.control = control.URL()
	}
	running := 0
	defer func() {
		if eerr := m.end(m.nodes[:running], hurry); err == nil {
			err = eerr
		}
	}()
	for i, d := range m.nodes {
		if err := m.configure(i); err != nil {
			return err
		}
		if err := d.start(m.program, m.environ, m.deaths); err != nil {
			return err
		}
		running++
	}
	m.note("starting %s that meet on a %s", count(len(m.nodes), "node"), m.network)
	if err := m.await(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	m.sayReady(ctx)
	return m.mourn(ctx)
}

// await returns when every node sees everything, when ctx has ended, or with the reason why it will not come to that.
func (m *demoMesh) await(ctx context.Context) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case d := <-m.deaths:
			return fmt.Errorf("%s does not start (%s); the end of its log:\n%s", d.name, d.how(), d.lastWords())
		case <-tick.C:
		}
		whole := true
		for _, d := range m.nodes {
			ok, err := m.look(ctx, d)
			if err != nil {
				return err
			}
			whole = whole && ok
		}
		if whole {
			return nil
		}
	}
}

// look tells what is new of a node, and reports whether it sees the whole mesh. One that does not answer is still
// coming up: should it not, its process ends.
func (m *demoMesh) look(ctx context.Context, d *demoNode) (whole bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	var s status.Node
	if d.node.get(ctx, "/v1/status", &s) != nil {
		return false, nil
	}
	word, err := progress(s)
	if err != nil {
		return false, fmt.Errorf("%s: %w", d.name, err)
	}
	var list modelList
	if word == "ready" && d.node.get(ctx, "/v1/models", &list) == nil {
		if whole = m.complete(list); !whole {
			word = "ready, waiting for the others"
		}
	}
	if word != d.said && ctx.Err() == nil {
		d.said = word
		m.note("%s: %s", d.name, word)
	}
	return whole, nil
}

// progress is how far a node's engines are; an error means that one of them will not come up.
func progress(s status.Node) (string, error) {
	var words []string
	for _, model := range s.Models {
		for _, b := range model.Backends {
			switch b.State {
			case "ready", "busy":
				continue
			case "failed":
				return "", fmt.Errorf("the engine of %s does not start: %s: try another with --engine or --model", model.Name, indent(b.Error, 2))
			}
			words = append(words, model.Name+" "+stateWord(b))
		}
	}
	if len(words) == 0 {
		return "ready", nil
	}
	return strings.Join(words, ", "), nil
}

// complete reports whether a node sees every model on all of its hosts.
func (m *demoMesh) complete(list modelList) bool {
	hosts := map[string]int{}
	for _, model := range list.Data {
		for _, h := range model.Viiwork.Hosts {
			if h.State == "ready" || h.State == "busy" {
				hosts[model.ID]++
			}
		}
	}
	return hosts[everywhere] == len(m.nodes) && hosts[onOne] == 1
}

// mourn tells of nodes that end, and returns when ctx does or none is left.
func (m *demoMesh) mourn(ctx context.Context) error {
	for left := len(m.nodes); left > 0; {
		select {
		case <-ctx.Done():
			return nil
		case d := <-m.deaths:
			left--
			m.note("%s has ended (%s); %s", d.name, d.how(), goesOn(left))
			if err := d.sweep(); err != nil {
				m.note("warning: %v", err)
			}
		}
	}
	return errors.New("every node has ended: start the demo again")
}

func goesOn(left int) string {
	switch left {
	case 0:
		return "it was the last one"
	case 1:
		return "the other one goes on"
	}
	return fmt.Sprintf("the other %d go on", left)
}

// end tells the nodes to end, waits for them, and ends what those left that did not end in peace.
func (m *demoMesh) end(nodes []*demoNode, hurry <-chan struct{}) error {
	for _, d := range nodes {
		d.signal(syscall.SIGTERM)
		d.signal(syscall.SIGCONT) // one that was stopped, to see what happens, hears the other only now
	}
	var errs []error
	for _, d := range slices.Backward(nodes) {
		d.wait(hurry)
		if d.err != nil {
			errs = append(errs, d.sweep())
		}
	}
	return errors.Join(errs...)
}
