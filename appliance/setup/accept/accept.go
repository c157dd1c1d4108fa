package accept

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"viiwork/appliance/status"
)

// Outcome is how a check ended.
type Outcome string

const (
	Pass Outcome = "PASS"
	Fail Outcome = "FAIL"
	Skip Outcome = "SKIP"
)

// Result is one check.
type Result struct {
	Outcome Outcome `json:"outcome"`
	Check   string  `json:"check"` // stable: ports, joined, ready:MODEL, content:MODEL …
	Seconds float64 `json:"seconds"`
	Detail  string  `json:"detail"`
}

// Kind is what a model is asked for.
type Kind string

const (
	Chat      Kind = "chat"
	Embedding Kind = "embedding"
	Rerank    Kind = "rerank"
)

// Model is one that this machine is to serve.
type Model struct {
	Name    string
	Kind    Kind          // "" = Chat
	NoTools bool          // its chat template speaks of none: that it calls none is no fault of this machine
	Startup time.Duration // it may take this long to load
}

// Config says what is accepted.
type Config struct {
	Node   string // its name in the mesh
	Models []Model
	Joined bool // others are known to be there: a node that sees none has failed
	// Do sends a request to the node by its socket; only the path counts of its URL. What is asked of another member goes to
	// /api/members/NAME.
	Do   func(*http.Request) (*http.Response, error)
	Tell func(Result) // each result as it comes; nil = nobody listens
	Note func(string) // what a check that takes long waits for; nil = nobody listens
}

// Passed reports that nothing failed.
func Passed(results []Result) bool {
	for _, r := range results {
		if r.Outcome == Fail {
			return false
		}
	}
	return true
}

// Run makes all checks, one after the other, until ctx ends.
func Run(ctx context.Context, cfg Config) []Result {
	r := &run{cfg: cfg, took: map[string]time.Duration{}}
	r.check(ctx, "node", r.node)
	if !Passed(r.results) {
		return r.results // nothing else could be told from a node that does not answer
	}
	r.check(ctx, "config", r.config)
	r.check(ctx, "joined", r.joined)
	r.check(ctx, "ports", r.ports)
	for _, m := range cfg.Models {
		r.check(ctx, "ready:"+m.Name, func(ctx context.Context) (Outcome, string) { return r.ready(ctx, m) })
	}
	for _, m := range cfg.Models {
		r.model(ctx, m)
	}
	return r.results
}

// model is what is asked of one model once it is ready.
func (r *run) model(ctx context.Context, m Model) {
	type check = func(context.Context, Model) (Outcome, string)
	checks := []struct {
		name string
		of   check
		chat bool
	}{
		{"content", r.content, false}, {"tools", r.tools, true}, {"pin", r.pin, true},
		{"saturate", r.saturate, true}, {"alias", r.alias, true}, {"cancel", r.cancel, true},
	}
	for _, c := range checks {
		if c.chat && m.kind() != Chat {
			continue
		}
		r.check(ctx, c.name+":"+m.Name, func(ctx context.Context) (Outcome, string) { return c.of(ctx, m) })
	}
}

func (m Model) kind() Kind {
	if m.Kind == "" {
		return Chat
	}
	return m.Kind
}

// run is one pass over all checks.
type run struct {
	cfg     Config
	results []Result
	took    map[string]time.Duration // an answer of each model that was alone
}

func (r *run) check(ctx context.Context, name string, of func(context.Context) (Outcome, string)) {
	if ctx.Err() != nil {
		return
	}
	begun := time.Now()
	outcome, detail := of(ctx)
	result := Result{Outcome: outcome, Check: name, Seconds: time.Since(begun).Seconds(), Detail: detail}
	r.results = append(r.results, result)
	if r.cfg.Tell != nil {
		r.cfg.Tell(result)
	}
}

func (r *run) node(ctx context.Context) (Outcome, string) {
	var own status.Node
	if err := r.get(ctx, "", "/v1/status", &own); err != nil {
		return Fail, err.Error()
	}
	if own.Node != r.cfg.Node {
		return Fail, fmt.Sprintf("the node that answers is %s, not %s: restart it with this configuration", own.Node, r.cfg.Node)
	}
	return Pass, fmt.Sprintf("%s answers, version %s", own.Node, own.Version)
}

// config wants every model file whole. What else the node has to say of its configuration is no fault: it serves.
func (r *run) config(ctx context.Context) (Outcome, string) {
	var own status.Node
	if err := r.get(ctx, "", "/v1/status", &own); err != nil {
		return Fail, err.Error()
	}
	detail := "the node took the configuration, and every model file is whole"
	for _, w := range own.Warnings {
		switch w.ID {
		case "model_file":
			return Fail, w.Text + ": " + w.Fix
		case "config", "plan":
			detail += "; it says: " + w.Text
		}
	}
	return Pass, detail
}

// others are the members that live, this one left out.
func (r *run) others(ctx context.Context) ([]string, error) {
	var all status.Cluster
	if err := r.get(ctx, "", "/v1/cluster", &all); err != nil {
		return nil, err
	}
	var names []string
	for _, m := range all.Members {
		if m.Name != r.cfg.Node && (m.State == "alive" || m.State == "draining") {
			names = append(names, m.Name)
		}
	}
	return names, nil
}

const alone = "no other node is in the mesh yet: run this again once one is"

// settleWithin is what members are given to hear of each other.
const settleWithin = 20 * time.Second

// joined wants every other member to list this one with all its models.
func (r *run) joined(ctx context.Context) (Outcome, string) {
	return r.fromOthers(ctx, func(member string, seen status.Cluster, _ status.Member) string {
		has := map[string]bool{}
		for _, m := range seen.Models {
			for _, host := range m.Hosts {
				has[m.Name] = has[m.Name] || host == r.cfg.Node
			}
		}
		for _, m := range r.cfg.Models {
			if !has[m.Name] {
				return fmt.Sprintf("%s does not list %s here", member, m.Name)
			}
		}
		return ""
	}, "seen with all its models by")
}

// reportFresh is how old this node's word may be at another one. It speaks each second.
const reportFresh = 3000

// ports wants others to reach this machine: what they know of its capacity they fetched from its API port, and that it
// lives they know by its gossip port.
func (r *run) ports(ctx context.Context) (Outcome, string) {
	return r.fromOthers(ctx, func(member string, seen status.Cluster, self status.Member) string {
		for _, w := range seen.Warnings { // gossip's own probes find out whether UDP gets through
			if w.ID == "gossip-udp" && strings.Contains(w.Text, r.cfg.Node+" (") {
				return member + " says: " + w.Text
			}
		}
		switch {
		case self.State != "alive" && self.State != "draining":
			return fmt.Sprintf("%s has this node as %s: it does not follow its API at %s", member, self.State, self.Addr)
		case self.AgeMS < 0 || self.AgeMS > reportFresh:
			return fmt.Sprintf("%s has heard nothing of this node's API at %s lately", member, self.Addr)
		}
		return ""
	}, "this machine's API and gossip ports are reached by")
}

// fromOthers looks at this node with the eyes of each other member until all are content.
func (r *run) fromOthers(ctx context.Context, wrong func(member string, seen status.Cluster, self status.Member) string, good string) (Outcome, string) {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	for before := ""; ; {
		names, err := r.others(ctx)
		problem := ""
		switch {
		case err != nil:
			problem = err.Error()
		case len(names) == 0 && !r.cfg.Joined:
			return Skip, alone
		case len(names) == 0:
			problem = "no other node of its mesh is seen: are those at mesh.seeds up, do ports 8086 and 7946 (tcp and udp) get through, is the secret the same?"
		}
		for _, name := range names {
			if problem == "" {
				problem = r.seenBy(ctx, name, wrong)
			}
		}
		if problem == "" {
			return Pass, good + " " + listed(names)
		}
		if ctx.Err() != nil {
			return Fail, cmp.Or(before, problem) // the last look was cut short and tells nothing
		}
		before = problem
		pause(ctx, 500*time.Millisecond)
	}
}

func (r *run) seenBy(ctx context.Context, name string, wrong func(string, status.Cluster, status.Member) string) string {
	var seen status.Cluster
	if err := r.get(ctx, name, "/v1/cluster", &seen); err != nil {
		return fmt.Sprintf("asking %s: %v", name, err)
	}
	// A machine that was set up anew is another node to the mesh, which remembers the one before under the same name.
	var self *status.Member
	for i, m := range seen.Members {
		if m.Name == r.cfg.Node && (self == nil || self.State == "left" || self.State == "failed") {
			self = &seen.Members[i]
		}
	}
	if self == nil {
		return name + " does not know this node"
	}
	return wrong(name, seen, *self)
}

// ready waits until a backend of the model serves.
func (r *run) ready(ctx context.Context, m Model) (Outcome, string) {
	ctx, cancel := context.WithTimeout(ctx, m.Startup+time.Minute)
	defer cancel()
	why := "it is not among this node's models: reload the configuration"
	for {
		var own status.Node
		if err := r.get(ctx, "", "/v1/status", &own); err != nil && ctx.Err() == nil {
			why = err.Error()
		}
		for _, found := range own.Models {
			if found.Name != m.Name {
				continue
			}
			ready := 0
			for _, b := range found.Backends {
				if b.State == "ready" || b.State == "busy" {
					ready++
				} else if why = fmt.Sprintf("backend %s is %s", b.ID, b.State); b.Error != "" {
					why += ": " + b.Error
				}
				if b.State == "failed" {
					return Fail, why
				}
			}
			if ready == len(found.Backends) && ready > 0 {
				return Pass, fmt.Sprintf("%s ready, context %d", counted(ready, "backend"), found.Context)
			}
		}
		if !pause(ctx, time.Second) {
			return Fail, why
		}
	}
}
