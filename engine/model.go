package engine

import (
	"fmt"
	"time"
)

// RunnerKind says how a model's engine processes come to be.
type RunnerKind string

const (
	RunnerDocker   RunnerKind = "docker"   // containers by the Docker API
	RunnerNative   RunnerKind = "native"   // processes of this machine
	RunnerExternal RunnerKind = "external" // a server somebody else runs; never started, stopped or restarted by us
)

// Model is one entry of the owner's configuration, defaults applied and paths made absolute. It is a value: two equal
// models need no restart between them.
type Model struct {
	Name     string // served under exactly this name; may hold a slash
	Path     string // absolute path of the (first) GGUF file; "" for external
	Runner   RunnerKind
	Image    string // docker: an image reference, already resolved from a short name
	Binary   string // native: program name or path
	URL      string // external: base URL without a path
	Accel    Accel  // what kind of cards GPUs are; AccelNone without cards
	Backends []BackendSpec
	Context  int // tokens per slot
	Parallel int // slots per backend, at least 1

	StartupTimeout time.Duration // loading longer than this is given up and respawned
	Args           []string      // the owner's own flags, appended last
	Env            map[string]string

	PromptCache  int64     // bytes of host RAM for the engine's prompt cache, per backend; 0 switches it off
	SplitMode    string    // layer, row, none, tensor
	SplitWeights []float64 // share of each card of a backend; empty = even
	Threads      int       // per backend; 0 = without cards, this machine's CPUs shared over the model's backends
}

// Accel names a family of cards: it decides how a process is bound to them.
type Accel string

const (
	AccelNone  Accel = ""
	AccelCUDA  Accel = "cuda"
	AccelROCm  Accel = "rocm"
	AccelMetal Accel = "metal"
)

// BackendSpec is one engine process of a model.
type BackendSpec struct {
	GPUs []int // host indices; empty = CPU (or Metal)
}

// backendID names backend n of a model, unique on this machine: "org/m#0".
func backendID(model string, n int) string { return fmt.Sprintf("%s#%d", model, n) }
