package engine

import (
	"context"
	"io"
)

// Runner starts engine processes of one kind and finds again those that an earlier run of this node left behind.
// Implementations: engine/docker, engine/native.
type Runner interface {
	// Probe runs the model's program with args (such as --help) outside of any backend, without cards and without
	// network, and returns what it printed on both streams. A program that cannot be had at all (no image, no binary,
	// no Docker) is an error whose text ends with the way out.
	Probe(ctx context.Context, m Model, args ...string) (string, error)
	// Find lists the living processes that an earlier run of this node started: by label or by record, never by guess.
	Find(ctx context.Context) ([]Process, error)
	// Start launches spec and returns as soon as the process exists; it does not wait for the engine to answer.
	Start(ctx context.Context, spec Spec) (Process, error)
}

// Spec is everything a runner needs to start one backend. Paths are the same inside and outside a container.
type Spec struct {
	Backend string   // backend id, with "b" behind it for every other engine of that backend: two may live side by side
	Model   Model    // runner-specific fields: Image, Binary, Env, Accel
	GPUs    []int    // host indices this process may see
	Args    []string // flags without the address; the runner appends Bind's
	// Bind gives the flags that make the engine listen on host:port.
	Bind func(host string, port int) []string
	// Env is set on top of a cleaned environment (no secrets of ours, no inherited device variables).
	Env map[string]string

	KeyFile string // 0600, holds the API key the engine demands; readable to the process
	SlotDir string // 0700, writable to the process
	// ReadOnly lists directories the process must read: the model's own.
	ReadOnly []string
	// Hash is the digest of all of the above that makes two processes interchangeable. A process found with another
	// hash is replaced.
	Hash string
}

// Process is one running engine process. Methods may be called from any goroutine.
type Process interface {
	Record() Record
	// Wait blocks until the process has ended or ctx has; it may be called more than once.
	Wait(ctx context.Context) (Exit, error)
	// Stop ends the process with everything it started: SIGTERM, 2 s, SIGTERM, 2 s, SIGKILL (llama-server ignores the
	// first while a stream is open and leaves at once on the second). It removes what the runner made for it.
	Stop(ctx context.Context) error
	// Logs writes the engine's output to w: the last tail lines (all when negative), and with follow what comes until
	// ctx ends or the process does.
	Logs(ctx context.Context, w io.Writer, tail int, follow bool) error
}

// Record identifies a process over restarts of the node.
type Record struct {
	ID      string // container id, or "pid 4711"
	Backend string // Spec.Backend
	Hash    string // Spec.Hash it was started with
	URL     string // http://127.0.0.1:PORT, known once started
	PID     int    // host process id of the engine, 0 when it cannot be known
}

// Exit tells how a process ended.
type Exit struct {
	Code   int    // exit status; -1 when ended by a signal
	Reason string // "exit status 1", "killed by SIGKILL", "out of memory"
}
