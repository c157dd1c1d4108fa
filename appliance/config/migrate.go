package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Migration is what became of a file of viiwork 1.
type Migration struct {
	Text []byte // the file for this version
	Left []Left // what could not be taken over as it was, in the order of the file
}

// Left is one key of the old file that needs its owner's eye.
type Left struct {
	Position
	Key string
	Why string // what became of it, or why nothing did, and what to do
}

func (l Left) String() string { return fmt.Sprintf("%s: %s: %s", l.Position, l.Key, l.Why) }

// Migrate rewrites a file of viiwork 1, which described one model on one port, for this version. What it cannot read is a
// [Faults]. The result says neither that the mesh is open nor what its secret is: that is for the owner to decide.
func Migrate(name string, data []byte) (Migration, error) {
	root, fault := document(name, data)
	if fault != nil {
		return Migration{}, Faults{*fault}
	}
	if versionOne(name, root) == nil {
		return Migration{}, Faults{{File: name, Line: 1, Column: 1, Message: "this is no file of viiwork 1: it has no server, model, gpus, backend, balancer or peers at the top level; one of viiwork 2 needs no rewriting: 'viiwork config validate' tells what in it is to be changed"}}
	}
	m := mover{file: name, written: map[string]*yaml.Node{}, list: &faultList{}}
	m.flatten(root, "")
	c := m.build()
	if err := m.list.err(); err != nil {
		return Migration{}, err
	}
	slices.SortStableFunc(m.left, func(a, b Left) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return Migration{Text: c.Text("Rewritten from " + printable(filepath.Base(name)) + " of viiwork 1. MIGRATING.md says what became of each key."), Left: m.left}, nil
}

func printable(s string) string { return strings.Trim(quote(s), `"`) }

// V1Keys lists the keys of viiwork 1 that Migrate knows, sorted. A key that ends in .* stands for a whole section.
func V1Keys() []string {
	keys := slices.Collect(maps.Keys(dropped))
	return slices.Sorted(slices.Values(append(keys, carried...)))
}

// carried are the keys that have a counterpart.
var carried = []string{
	"server.host", "server.port", "server.cors.allow_origins",
	"model.path", "model.context_size", "model.n_gpu_layers", "model.parallel",
	"gpus.devices", "gpus.count", "gpus.offset", "gpus.power_limit_watts",
	"gpus.tensor_split.enabled", "gpus.tensor_split.mode", "gpus.tensor_split.weights", "gpus.tensor_split.main_gpu", "gpus.tensor_split.group_size",
	"backend.binary", "backend.extra_args", "backend.threads",
	"health.interval", "health.respawn_grace", "peers.hosts", "peers.gossip.secret_env",
}

// dropped are the keys that have none, and why.
var dropped = map[string]string{
	"server.mesh_port":             "no page has a port of its own: everything is on api.port",
	"gpus.base_port":               "engines take free ports of 127.0.0.1 by themselves",
	"health.timeout":               "an engine is judged by its progress: see health.stall",
	"health.max_failures":          "an engine is judged by its progress: see health.stall",
	"health.evict_on_hard_failure": "an engine that fails gets no requests, always",
	"balancer.*":                   "requests go where they are answered soonest (docs/routing.md), and a slot never gets two: see routing",
	"peers.poll_interval":          "members tell each other what changes as it changes",
	"peers.timeout":                "a member that is silent for routing.stale_after gets no requests",
	"peers.gossip.*":               "gossip is always on: its port is mesh.bind_port, its secret mesh.secret_env",
	"pipelines.*":                  "pipelines were not carried over: a client asks one model after the other",
	"cost.*":                       "the cost of electricity is not reckoned any more",
	"power.*":                      "chassis power is not measured any more",
	"energy.*":                     "energy is not recorded any more",
	"activity.*":                   "prompts are never kept",
}

// whyDropped finds the reason for a key, "" if it has a counterpart or is unknown.
func whyDropped(key string) string {
	if why := dropped[key]; why != "" {
		return why
	}
	held := func(k string) bool { return k == key || strings.HasPrefix(k, key+".") } // it, or something in it, is carried over
	for section := key; section != "" && !slices.ContainsFunc(carried, held); {
		if why := dropped[section+".*"]; why != "" {
			return why
		}
		section = section[:max(strings.LastIndexByte(section, '.'), 0)]
	}
	return ""
}

// mover holds the old file taken apart.
type mover struct {
	file    string
	written map[string]*yaml.Node // by dotted key
	seen    int                   // keys visited so far
	left    []Left
	list    *faultList
}

// flatten collects the keys below n. What is dropped as a whole section is named once.
func (m *mover) flatten(n *yaml.Node, prefix string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if m.seen++; m.seen > maxValues { // an anchor that holds itself never ends, one of anchors doubles with each
			if m.list.err() == nil {
				m.list.add(Fault{File: m.file, Line: key.Line, Column: key.Column, Message: fmt.Sprintf("the file grows beyond %d values here: cut it down, and see whether an anchor repeats itself", maxValues)})
			}
			return
		}
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		name := prefix + key.Value
		why := whyDropped(name)
		switch {
		case why != "":
			m.leave(key, name, why)
		case value.Kind == yaml.MappingNode && !slices.Contains(carried, name) && len(name) < 100:
			m.flatten(value, name+".")
		case slices.Contains(carried, name):
			m.written[name] = value
		default:
			m.leave(key, printable(name), "this version has nothing like it: see docs/config.md for its keys")
		}
	}
}

func (m *mover) leave(at *yaml.Node, key, why string) {
	if len(m.left) < maxFaults {
		m.left = append(m.left, Left{Position{m.file, at.Line, at.Column}, key, why})
	}
}

// look says something about a key that was carried over, or about one that is missing.
func (m *mover) look(key, why string) {
	at := &yaml.Node{Line: 1, Column: 1}
	if n := m.written[key]; n != nil {
		at = n
	}
	m.leave(at, key, why)
}

// build makes the configuration of this version, with version 1's own defaults where the file did not say.
func (m *mover) build() *Config {
	c := Default()
	c.Mesh.Network = "lan" // version 1 answered on the machine's own addresses
	m.server(&c)
	m.peers(&c)
	c.Health.Interval = take(m, "health.interval", c.Health.Interval)
	c.Node.Drain = take(m, "health.respawn_grace", c.Node.Drain)
	c.GPU.PowerLimitWatts = take(m, "gpus.power_limit_watts", 0)
	model := DefaultModel()
	m.served(&c, &model)
	m.cards(&model)
	m.program(&model)
	c.Models = []Model{model}
	return &c
}

func (m *mover) server(c *Config) {
	if c.API.Port = take(m, "server.port", c.API.Port); m.written["server.port"] == nil {
		m.look("server.port", "version 1 listened on 8080 where the file did not say, this version on 8086: tell the clients, or set api.port")
	}
	if host := take(m, "server.host", ""); host != "0.0.0.0" && host != "::" {
		c.API.Host = host
	}
	c.API.CORS.AllowOrigins = take(m, "server.cors.allow_origins", c.API.CORS.AllowOrigins)
}

// peers become seeds: they are not needed where machines find each other, and do no harm there.
func (m *mover) peers(c *Config) {
	c.Mesh.SecretEnv = take(m, "peers.gossip.secret_env", c.Mesh.SecretEnv)
	if m.written["peers.gossip.secret_env"] != nil {
		m.look("peers.gossip.secret_env", "the variable must now hold base64 of exactly 32 bytes: openssl rand -base64 32")
	}
	for _, peer := range take(m, "peers.hosts", []string(nil)) {
		_, address, found := strings.Cut(peer, "://")
		if !found {
			address = peer
		}
		address, _, _ = strings.Cut(address, "/")
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = strings.Trim(address, "[]")
		}
		own := host == "localhost" || strings.HasPrefix(host, "127.") || host == "::1" || host == ""
		if !own && !slices.Contains(c.Mesh.Seeds, host) {
			c.Mesh.Seeds = append(c.Mesh.Seeds, host)
		}
	}
	if m.written["peers.hosts"] != nil {
		m.look("peers.hosts", "became mesh.seeds, without the ports and this machine's own; machines of one network find each other without")
	}
	if m.written["peers.gossip.secret_env"] == nil { // else it is told there
		m.look("mesh", "the old file names no secret: set VIIWORK_MESH_SECRET on every machine (openssl rand -base64 32), or mesh.open: true")
	}
}

// served is the model: its file, its name, and what each slot gets.
func (m *mover) served(c *Config, model *Model) {
	model.Path = take(m, "model.path", "")
	if model.Path == "" {
		at := Fault{File: m.file, Line: 1, Column: 1, Key: "model.path", Message: "missing: version 1 did not start without it either"}
		m.list.add(at)
	}
	model.Name = strings.TrimSuffix(path.Base(model.Path), ".gguf")
	if filepath.IsAbs(model.Path) {
		c.ModelsDir = filepath.Dir(model.Path)
	}
	// One that spans cards had one slot, whatever the file said, in most of version 1's life.
	model.Parallel = max(take(m, "model.parallel", 1), 1)
	total := take(m, "model.context_size", 8192)
	model.Context = total / model.Parallel
	if model.Parallel > 1 {
		m.look("model.context_size", fmt.Sprintf("was for all slots together: %d / %d makes context: %d for each", total, model.Parallel, model.Context))
	}
	// All layers go to the cards unless told otherwise, in both versions.
	if layers := take(m, "model.n_gpu_layers", -1); layers >= 0 && layers < 99 {
		model.Args = append(model.Args, "--n-gpu-layers", fmt.Sprint(layers))
	}
}

func (m *mover) cards(model *Model) {
	model.GPUs = take(m, "gpus.devices", []int(nil))
	count, first := take(m, "gpus.count", 10), take(m, "gpus.offset", 0)
	if len(model.GPUs) == 0 {
		for i := range min(max(count, 0), maxGPU+1) {
			model.GPUs = append(model.GPUs, first+i)
		}
		if m.written["gpus.count"] == nil {
			m.look("gpus.count", "version 1 took ten cards where the file did not say: correct gpus")
		}
	}
	if !take(m, "gpus.tensor_split.enabled", false) {
		return
	}
	if model.GPUsPerBackend = take(m, "gpus.tensor_split.group_size", 0); model.GPUsPerBackend == 0 {
		model.GPUsPerBackend = len(model.GPUs)
	}
	model.Llamacpp.SplitMode = cmp.Or(take(m, "gpus.tensor_split.mode", ""), "layer")
	model.Llamacpp.SplitWeights = take(m, "gpus.tensor_split.weights", []float64(nil))
	if main := take(m, "gpus.tensor_split.main_gpu", 0); main > 0 {
		model.Args = append(model.Args, "--main-gpu", fmt.Sprint(main))
	}
}

func (m *mover) program(model *Model) {
	model.Llamacpp.Runner = runnerNative
	model.Llamacpp.Binary = take(m, "backend.binary", model.Llamacpp.Binary)
	model.Llamacpp.Threads = take(m, "backend.threads", 0)
	model.Args = append(model.Args, take(m, "backend.extra_args", []string(nil))...)
	m.look("backend.binary", "became runner: native. Where version 1 ran in a container that held llama-server, take runner: docker and an image (cuda, rocm, rocm-gfx906)")
}

// take reads a value of the old file, or gives what version 1 had where it did not say.
func take[T any](m *mover, key string, otherwise T) T {
	n := m.written[key]
	if n == nil || n.Tag == "!!null" {
		return otherwise
	}
	value := otherwise
	if err := n.Decode(&value); err != nil {
		m.list.add(Fault{File: m.file, Line: n.Line, Column: n.Column, Key: key, Message: fmt.Sprintf("version 1 would not have read this: want %s", kindWords[fmt.Sprintf("%T", otherwise)])})
		return otherwise
	}
	return value
}

var kindWords = map[string]string{
	"int": "a whole number", "string": "text", "bool": "true or false", "time.Duration": "a duration such as 5s",
	"[]string": "a list of texts", "[]int": "a list of whole numbers", "[]float64": "a list of numbers",
}
