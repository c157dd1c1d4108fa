package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"

	"viiwork/appliance/status"
)

// ErrFewNodes is returned by [KV.Run] where there is nowhere to move to.
var ErrFewNodes = errors.New("a cache moves between two nodes that have the same model")

// capacity is what matters here of GET /v1/fleet/capacity.
type capacity struct {
	Models []hosted `json:"models"`
}

type hosted struct {
	Name  string `json:"name"`
	Alias string `json:"alias_of"`
	Hosts []host `json:"hosts"`
}

// host is a node that has the model.
type host struct {
	Node    string `json:"node"`
	API     string `json:"api"` // "" = it is the entry
	Slots   int    `json:"slots"`
	Context int    `json:"ctx"`
	Stale   bool   `json:"stale"`

	base string // where its own figures are asked for; "" = nowhere
}

// ready are the hosts that can take part. One whose name is not as node names are cannot be asked for.
func (h hosted) ready() []host {
	var all []host
	for _, h := range h.Hosts {
		if !h.Stale && h.Slots > 0 && h.Node != "" && name(h.Node) == h.Node && len(all) < maxHosts {
			all = append(all, h)
		}
	}
	return all
}

// survey finds the model, the nodes that have it and the room of a slot.
func (r *kvRun) survey(ctx context.Context) error {
	address := r.cfg.Entry + "/v1/fleet/capacity"
	if r.cfg.Model != "" {
		address += "?model=" + url.QueryEscape(r.cfg.Model)
	}
	var c capacity
	var no refusal
	switch err := r.client.document(ctx, address, nil, &c); {
	case errors.As(err, &no) && no.status == 404 && r.cfg.Model != "":
		return fmt.Errorf("no node has a model %q: see 'viiwork models --mesh'", name(r.cfg.Model))
	case err != nil:
		return fmt.Errorf("asking the entry %s what nodes there are: %w", r.cfg.Entry, err)
	}
	i := slices.IndexFunc(c.Models, func(m hosted) bool { return m.Name != "" && len(m.ready()) >= 2 })
	if i < 0 {
		what := "the same model"
		if r.cfg.Model != "" {
			what = name(r.cfg.Model)
		}
		return fmt.Errorf("%w, and no two have %s loaded: start it on a second node, see 'viiwork status --mesh'", ErrFewNodes, what)
	}
	m := c.Models[i]
	r.model, r.client.model, r.hosts = m.Name, m.Name, m.ready()
	if m.Alias != "" {
		r.model = m.Alias
	}
	r.settle(ctx)
	return r.room()
}

// settle finds out where each host tells its own figures, and what it says there of kv_share.
func (r *kvRun) settle(ctx context.Context) {
	for i := range r.hosts {
		h := &r.hosts[i]
		h.base = r.cfg.Entry
		if h.API != "" {
			h.base, _ = ParseEntry(h.API)
		}
		n := KVNode{Node: h.Node, Enabled: true}
		if kv, ok := r.told(ctx, h); ok {
			n.Mode = name(kv.Mode)
			m, known := modelOf(kv, r.model)
			n.Enabled = kv.Mode != "off" && (m.Enabled || !known)
		} else {
			h.base = ""
		}
		r.report.Nodes = append(r.report.Nodes, n)
	}
}

// room is the least context of the hosts.
func (r *kvRun) room() error {
	least := math.MaxInt
	for _, h := range r.hosts {
		if h.Context > 0 && h.Context <= mostTokens {
			least = min(least, h.Context)
		}
	}
	if least == math.MaxInt {
		return fmt.Errorf("the context length of %s is not known: wait until its nodes have loaded it", name(r.model))
	}
	r.report.Context = least
	most := int((1-slack)*float64(least)) - extra
	if most < leastPrompt {
		return fmt.Errorf("a context of %d tokens is too small for a conversation that is worth moving", least)
	}
	for _, n := range r.cfg.Tokens {
		if n = min(n, most); !slices.Contains(r.sizes, n) {
			r.sizes = append(r.sizes, n)
		}
	}
	slices.Sort(r.sizes)
	return nil
}

// pairs lists who moves to whom: each node to its next, then to its next but one, so that few pairs take in many nodes.
func (r *kvRun) pairs() (all [][2]int) {
	n := len(r.hosts)
	for step := 1; step < n; step++ {
		for i := range n {
			if len(all) < r.cfg.Pairs {
				all = append(all, [2]int{i, (i + step) % n})
			}
		}
	}
	return all
}

// told is what a host says now of moved caches.
func (r *kvRun) told(ctx context.Context, h *host) (kv status.KV, ok bool) {
	if h.base == "" {
		return kv, false
	}
	err := r.client.document(ctx, h.base+"/api/kv", nil, &kv)
	return kv, err == nil && kv.Mode != ""
}

func modelOf(kv status.KV, model string) (status.KVModel, bool) {
	for _, m := range kv.Models {
		if m.Name == model {
			return m, true
		}
	}
	return status.KVModel{}, false
}
