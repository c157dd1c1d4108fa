package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// Engine and runner names of a model.
const (
	runnerDocker   = "docker"
	runnerNative   = "native"
	runnerExternal = "external"
)

// Default is the configuration of an empty file, to be read into, or filled in by code and written with [Config.Text]. What
// depends on other keys (the device's name, api.local, a model's image) is empty in it, as it is in a file that does not say.
func Default() Config {
	return Config{
		Node: Node{StateDir: "/var/lib/viiwork", Drain: 30 * time.Second},
		API:  API{Port: 8086, MaxBody: 64 * mib, MaxInflight: 512 * mib},
		Mesh: Mesh{
			Network:       "tailnet",
			BindPort:      7946,
			SecretEnv:     "VIIWORK_MESH_SECRET",
			SecretPrevEnv: "VIIWORK_MESH_SECRET_PREV",
			SecretEnforce: "full",
			LAN:           LAN{MDNS: true},
		},
		ModelsDir: "/srv/models",
		Routing: Routing{
			Policy: "cost", Performance: true, Affinity: true, QueueMax: 64, QueueTimeout: 20 * time.Second,
			WarmWait: time.Minute, StaleAfter: 3 * time.Second, Rescue: true,
		},
		Health:  Health{Interval: 5 * time.Second, Stall: 2 * time.Minute},
		KVShare: KVShare{Mode: "pull", Store: 32 * gib},
		Log:     Log{Level: "info", Format: "text"},
	}
}

// defaultContext is what a slot gets when the file does not say: enough for a chat, small enough for any card.
const defaultContext = 8192

// DefaultModel is an entry of models that says nothing.
func DefaultModel() Model {
	return Model{
		Engine:         "llamacpp",
		GPUsPerBackend: 1,
		Parallel:       1,
		StartupTimeout: 10 * time.Minute,
		Llamacpp: Llamacpp{
			Runner: runnerDocker, Binary: "llama-server", PromptCache: 8 * gib, SplitMode: "layer",
		},
	}
}

// derive fills what depends on other keys and was set nowhere, and makes paths absolute: relative ones start at the
// folder of the file, because a service's working directory is nobody's intention.
func (c *Config) derive(folder string) {
	if !c.IsSet("node.name") {
		host, _ := os.Hostname()
		c.Node.Name = NodeName(host)
	}
	if !c.IsSet("mesh.tailnet.hostname") {
		c.Mesh.Tailnet.Hostname = "viiwork-" + c.Node.Name
	}
	if !c.IsSet("api.local") {
		c.API.Local = fmt.Sprintf("127.0.0.1:%d", c.API.Port)
	}
	c.Node.StateDir = absolute(folder, c.Node.StateDir)
	c.ModelsDir = absolute(folder, c.ModelsDir)
	for i := range c.Models {
		c.deriveModel(i)
	}
}

func (c *Config) deriveModel(i int) {
	m, key := &c.Models[i], fmt.Sprintf("models[%d].", i)
	if m.Path != "" {
		m.Path = absolute(c.ModelsDir, m.Path)
	}
	if !c.IsSet(key+"context") && m.Llamacpp.Runner != runnerExternal {
		m.Context = defaultContext
	}
	// The image for cards cannot run on a machine without their driver.
	if !c.IsSet(key+"llamacpp.image") && m.Llamacpp.Runner == runnerDocker {
		m.Llamacpp.Image = "cpu"
		if len(m.GPUs) > 0 {
			m.Llamacpp.Image = "cuda"
		}
	}
}

func absolute(folder, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(folder, path)
}

// NodeName makes a node's name of a host's: up to the first dot, lower case, everything else a dash, at most 32 bytes.
func NodeName(host string) string {
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, host)
	name = strings.Trim(name[:min(len(name), maxNodeName)], "-")
	if name == "" {
		return "node"
	}
	return name
}
