package engine

import "context"

// Dialect knows one kind of engine: its flags, build by build, and its HTTP interface. The implementation is
// engine/llama; a Dialect is safe for use from any goroutine.
type Dialect interface {
	// Build reads what a program printed for --version and --help.
	Build(version, help string) (Build, error)
	// Flags gives the arguments of one backend for that build, address left out. Owner's flags the build does not know
	// are an error naming the flag and the nearest known one: an unknown flag ends the engine at once, and a restart
	// loop would follow.
	Flags(b Build, o Options) ([]string, error)
	// Bind gives the flags that make the engine listen on host:port.
	Bind(host string, port int) []string
	// Check asks one engine how it is. It needs no slot and returns within ctx; an engine that cannot be reached or
	// does not answer in time is an error.
	Check(ctx context.Context, t Target) (Health, error)
	// Prove sends a real request for one token and reads the answer.
	Prove(ctx context.Context, t Target, model string) error
	// Props asks a ready engine what it is serving.
	Props(ctx context.Context, t Target) (Props, error)
	// Slots asks what the engine's slots do. It may take seconds while a large batch is computed.
	// Not more often than once in 2 s: llama-server notices a lost client only in a second without any other result.
	Slots(ctx context.Context, t Target) ([]SlotState, error)
	// Progress reads the share (0…1) of loading done out of an engine's own log lines; -1 when unknown.
	Progress(log string) float64
}

// Options is what Flags turns into arguments.
type Options struct {
	Model   Model
	GPUs    []int
	KeyFile string
	SlotDir string
	Threads int // 0 = leave it to the engine
}

// Target is where one engine answers and the key it demands.
type Target struct {
	URL string // http://127.0.0.1:PORT
	Key string // "" = none
}

// Build identifies a version of an engine program.
type Build struct {
	Version string          // "0.7.0 (build 11669)"
	Number  int             // 11669; 0 = unknown
	Flags   map[string]bool // every flag the program knows, with its dashes
	Values  map[string]int  // how many values a flag of Flags takes; absent = none, nil = not known
}

// Health is an engine's own word about itself.
type Health struct {
	Ready    bool    // answers; false = still loading
	Progress float64 // 0…1 while loading, -1 unknown
}

// Props is what a ready engine serves.
type Props struct {
	Context int    // tokens per slot
	Slots   int    // number of slots; 0 = the server does not say
	Build   string // the server's own build string
}

// SlotState is one slot as the engine reports it.
type SlotState struct {
	ID         int
	Processing bool
	Tokens     int // tokens the slot holds: prompt and generated; 0 = empty or unknown
	// Work grows while the slot advances: prompt tokens processed plus tokens decoded of the current task.
	Work int
	Task int // number of the slot's task or of its last one, growing from task to task; -1 = none or unknown
}
