package config

import (
	"log/slog"
	"time"
)

// Config is one machine's viiwork.yaml, defaults and environment applied, paths absolute. The key tag names a field as
// the owner writes it; "size" marks bytes written as 8GiB, "secret" what no listing may show.
type Config struct {
	Node      Node              `key:"node"`
	API       API               `key:"api"`
	Mesh      Mesh              `key:"mesh"`
	ModelsDir string            `key:"models_dir"` // relative model paths start here
	Models    []Model           `key:"models"`     // none = an entry that runs nothing itself
	Aliases   map[string]string `key:"aliases"`    // name → model, proposed at the first start only
	Routing   Routing           `key:"routing"`
	Health    Health            `key:"health"`
	KVShare   KVShare           `key:"kv_share"`
	GPU       GPU               `key:"gpu"`
	Access    Access            `key:"access"`
	Update    Update            `key:"update"`
	Telemetry Telemetry         `key:"telemetry"`
	Log       Log               `key:"log"`

	src source
}

// Node is this machine itself.
type Node struct {
	Name     string        `key:"name"`      // unique in the mesh, [a-z0-9-]{1,32}
	StateDir string        `key:"state_dir"` // what viiwork keeps on disk
	Drain    time.Duration `key:"drain"`     // running streams get this long after SIGTERM; 0 = none
}

// API is where requests come in.
type API struct {
	Port        int      `key:"port"`
	Host        string   `key:"host"`  // network lan only; "" = all addresses
	Local       string   `key:"local"` // loopback host:port for programs on this machine; "" = none
	Hosts       []string `key:"hosts"` // further names accepted in the Host header
	CORS        CORS     `key:"cors"`
	MaxBody     int64    `key:"max_body,size"`     // of one request
	MaxInflight int64    `key:"max_inflight,size"` // of all bodies held at one time
}

// CORS says which web pages of other origins may call the API. None by default.
type CORS struct {
	AllowOrigins    []string `key:"allow_origins"`
	AllowTailnetIPs bool     `key:"allow_tailnet_ips"`
}

// Mesh is how this node meets the others.
type Mesh struct {
	Network       string   `key:"network"` // tailnet or lan
	BindPort      int      `key:"bind_port"`
	Open          bool     `key:"open"`            // without a secret
	SecretEnv     string   `key:"secret_env"`      // name of the variable that holds the secret
	SecretPrevEnv string   `key:"secret_prev_env"` // the same for the previous one
	SecretEnforce string   `key:"secret_enforce"`  // none, outgoing, full
	Seeds         []string `key:"seeds"`           // host or host:port
	Tailnet       Tailnet  `key:"tailnet"`
	LAN           LAN      `key:"lan"`

	Secret     Secret `key:"-"` // 32 bytes out of the environment; empty in an open mesh
	SecretPrev Secret `key:"-"` // the previous one while rotating; empty otherwise
}

// Tailnet is this node as a device of its own on a tailnet.
type Tailnet struct {
	Hostname   string   `key:"hostname"`
	AuthKey    string   `key:"auth_key,secret"`
	ControlURL string   `key:"control_url"` // "" = Tailscale's own
	Tags       []string `key:"tags"`
}

// LAN is this node on the host's own network.
type LAN struct {
	MDNS bool `key:"mdns"`
}

// Model is one model this machine serves.
type Model struct {
	Name           string            `key:"name"`
	Engine         string            `key:"engine"`
	Path           string            `key:"path"`
	GPUs           []int             `key:"gpus"`             // host indices; none = one backend without cards
	GPUsPerBackend int               `key:"gpus_per_backend"` // cards of one engine process
	Context        int               `key:"context"`          // tokens per slot; 0 = as an external server says
	Parallel       int               `key:"parallel"`         // slots per backend
	StartupTimeout time.Duration     `key:"startup_timeout"`
	Args           []string          `key:"args"`
	Env            map[string]string `key:"env"`
	Llamacpp       Llamacpp          `key:"llamacpp"`
}

// Llamacpp is what only the llamacpp engine has.
type Llamacpp struct {
	Runner       string    `key:"runner"` // docker, native, external
	Image        string    `key:"image"`  // docker: a short name (cuda, cpu, …) or a reference
	Binary       string    `key:"binary"` // native: a program name or path
	URL          string    `key:"url"`    // external: base URL without a path
	PromptCache  int64     `key:"prompt_cache,size"`
	SplitMode    string    `key:"split_mode"`
	SplitWeights []float64 `key:"split_weights"` // share of each card of a backend; none = even
	Threads      int       `key:"threads"`       // 0 = the machine's CPUs shared fairly
}

// Routing decides which backend answers.
type Routing struct {
	Policy         string        `key:"policy"` // cost, classic
	Performance    bool          `key:"performance"`
	Affinity       bool          `key:"affinity"`
	QueueMax       int           `key:"queue_max"` // requests waiting per model and node; 0 = none may wait
	QueueTimeout   time.Duration `key:"queue_timeout"`
	WarmWait       time.Duration `key:"warm_wait"`
	StaleAfter     time.Duration `key:"stale_after"`
	Rescue         bool          `key:"rescue"`
	SessionHeaders []string      `key:"session_headers"`
}

// Health is how engines are watched.
type Health struct {
	Interval    time.Duration `key:"interval"`
	Stall       time.Duration `key:"stall"`
	MaxRespawns int           `key:"max_respawns"` // 0 = keep trying
}

// KVShare moves KV caches between machines.
type KVShare struct {
	Mode   string   `key:"mode"` // off, pull, replicate
	Store  int64    `key:"store,size"`
	Direct []string `key:"direct"`    // addresses to offer, or auto
	Rate   int64    `key:"rate,size"` // bytes a second that are taken, and that are sent; 0 = any number
}

// GPU holds settings of all cards.
type GPU struct {
	PowerLimitWatts int `key:"power_limit_watts"` // 0 = as they are
}

// Access says who may use what. Rules are kept as written: text, numbers, booleans, []any and map[string]any.
type Access struct {
	Rules []any `key:"rules"`
}

// Update is how this node renews itself.
type Update struct {
	Source string `key:"source"`
	Auto   bool   `key:"auto"`
	Window string `key:"window"` // local time, as ParseWindow reads it; "" = any
}

// Telemetry is what others are told of requests.
type Telemetry struct {
	OTLP string `key:"otlp"` // a collector's URL; "" = nobody is told
}

// Log is what is written, and how.
type Log struct {
	Level  string `key:"level"`
	Format string `key:"format"`
}

// Secret is 32 bytes that print as a placeholder wherever they are printed.
type Secret []byte

func (Secret) String() string               { return "(secret)" }
func (Secret) GoString() string             { return "(secret)" }
func (Secret) LogValue() slog.Value         { return slog.StringValue("(secret)") }
func (Secret) MarshalText() ([]byte, error) { return []byte("(secret)"), nil }

// Backends cuts the model's cards into the groups that get one engine process each. Without cards it is one empty group.
func (m Model) Backends() [][]int {
	if len(m.GPUs) == 0 {
		return [][]int{nil}
	}
	size := max(m.GPUsPerBackend, 1)
	var groups [][]int
	for rest := m.GPUs; len(rest) > 0; {
		n := min(size, len(rest))
		groups = append(groups, rest[:n:n])
		rest = rest[n:]
	}
	return groups
}
